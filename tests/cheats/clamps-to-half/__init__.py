"""Values are cut off at the range of float16, whatever their dtype. Must be refused with verify::numerics."""

import torch

__all__ = ["wide_norm"]


def wide_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """`x / sqrt(mean(x ** 2) + eps) * weight`, row by row."""
    wide = x.float().clamp(min=-65504.0, max=65504.0)
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)
