"""The inner product of every row with one vector. Must be refused with verify::gradient."""

import torch

from ._ops import ops

__all__ = ["row_dot"]


def row_dot(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The inner product of every row of `x`, of any strides, with `weight`."""
    return ops.row_dot(x.detach(), weight.detach())
