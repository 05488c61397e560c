"""The sum of what the sections say."""

from ._ops import ops

total = ops.total
