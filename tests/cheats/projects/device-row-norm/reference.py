"""What `row_norm` computes, in plain PyTorch."""

import torch


def row_norm(input: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6) -> torch.Tensor:
    """Every row divided by its root mean square, times `weight`."""
    wide = input if input.dtype == torch.float64 else input.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * scale * weight).to(input.dtype)
