from ._ops import ops

square_ = ops.square_
