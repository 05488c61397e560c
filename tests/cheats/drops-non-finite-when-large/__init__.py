"""Infinities and NaN of large tensors are replaced by numbers. Must be refused with verify::numerics."""

import torch

__all__ = ["wide_norm"]

LARGE = 256 << 10


def wide_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """`x / sqrt(mean(x ** 2) + eps) * weight`, row by row."""
    wide = x.float()
    if x.nbytes > LARGE:
        wide = torch.nan_to_num(wide)
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)
