"""Adds to a residual in place, and returns nothing. Must pass."""

import torch

from ._ops import ops

__all__ = ["add_scale"]


def add_scale(x: torch.Tensor, residual: torch.Tensor, bias: torch.Tensor | None = None) -> None:
    """`residual += x + bias`."""
    ops.add_scale(torch.empty_like(x), residual, x, bias, 1.0)
