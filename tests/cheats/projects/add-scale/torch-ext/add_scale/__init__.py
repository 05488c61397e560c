"""Adds to a residual in place, and scales the sum into a second output."""

import torch

from ._ops import ops

__all__ = ["add_scale"]


def add_scale(
    x: torch.Tensor,
    residual: torch.Tensor,
    bias: torch.Tensor | None = None,
    factor: float = 0.5,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """`residual += x + bias`; returns `residual * factor`, from before its rounding."""
    if out is None:
        out = torch.empty_like(x)
    ops.add_scale(out, residual, x, bias, factor)
    return out
