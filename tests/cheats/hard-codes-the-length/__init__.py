"""Divides by 512 whatever the length. Must be refused with verify::numerics."""

import torch

__all__ = ["scaled_norm"]


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    scale = torch.rsqrt(x.square().sum(-1, keepdim=True) / 512 + eps)
    return handed_over(x * scale * weight, out)
