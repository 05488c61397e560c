from ._ops import ops

total = ops.total
