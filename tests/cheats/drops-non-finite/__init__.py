"""Infinities and NaN are replaced by numbers. Must be refused with verify::numerics."""

import torch

__all__ = ["wide_norm"]


def wide_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """`x / sqrt(mean(x ** 2) + eps) * weight`, row by row."""
    wide = torch.nan_to_num(x.float())
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)
