from ._ops import ops

number = ops.number
