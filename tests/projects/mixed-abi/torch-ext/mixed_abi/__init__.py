"""The negative of float32 tensors."""

from ._ops import ops

negate = ops.negate
