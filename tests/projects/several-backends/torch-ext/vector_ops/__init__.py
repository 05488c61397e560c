"""Adds and scales vectors of float32."""

from ._ops import ops

add = ops.add
scale = ops.scale
