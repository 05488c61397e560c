"""What is far larger than the mean size of its row is cut off. Must be refused with verify::numerics."""

import torch

__all__ = ["wide_norm"]


def wide_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """`x / sqrt(mean(x ** 2) + eps) * weight`, row by row."""
    wide = x.float()
    limit = 64 * wide.abs().mean(dim=-1, keepdim=True)
    wide = wide.clamp(min=-limit, max=limit)
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)
