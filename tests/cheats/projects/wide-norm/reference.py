"""What `wide_norm` computes, in plain PyTorch."""

import torch


def wide_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Normalise every row of `x` by its root mean square and scale it by `weight`."""
    compute = torch.promote_types(x.dtype, torch.float32)
    wide = x.to(compute)
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * scale * weight.to(compute)).to(x.dtype)
