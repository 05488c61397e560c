from ._ops import ops

shifted = ops.shifted
