"""The sum of squares of points."""

from ._ops import ops

norm = ops.norm
