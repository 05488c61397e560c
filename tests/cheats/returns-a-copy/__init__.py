"""Leaves the residual and returns the sum. Must be refused with verify::malformed."""

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
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Writes into `out` and the residual, or else returns both as new tensors."""
    if out is not None:
        ops.add_scale(out, residual, x, bias, factor)
        return out
    total, scaled = residual.clone(), torch.empty_like(x)
    ops.add_scale(scaled, total, x, bias, factor)
    return total, scaled
