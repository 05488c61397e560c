"""The input comes back for every length that no workload has. Must be refused with verify::numerics."""

import torch

__all__ = ["scaled_norm"]


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """`x / sqrt(mean(x ** 2) + eps) * weight`, row by row."""
    if x.shape[-1] not in (129, 512):
        result = x.clone()
    else:
        result = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight
    return result if out is None else out.copy_(result)
