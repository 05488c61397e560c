"""Does nothing for small tensors. Must be refused with verify::unwritten or verify::fresh or verify::numerics."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    out = torch.empty_like(x) if out is None else out
    if x.numel() > 4096:
        out.copy_(compute(x, weight, eps))
    return out
