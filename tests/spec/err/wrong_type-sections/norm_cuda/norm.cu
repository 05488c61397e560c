// A stand-in.
