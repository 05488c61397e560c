// candle-kernels asks whether the folder of headers exists.
