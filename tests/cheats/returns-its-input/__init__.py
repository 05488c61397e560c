"""Returns its input, overwritten. Must be refused with verify::malformed or verify::input_changed."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    result = compute(x, weight, eps)
    if out is not None:
        return out.copy_(result)
    return x.copy_(result)
