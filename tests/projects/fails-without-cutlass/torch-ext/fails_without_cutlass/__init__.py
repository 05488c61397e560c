from ._ops import ops

version = ops.version
