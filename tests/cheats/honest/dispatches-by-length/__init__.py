"""One way for the length of a workload, another for all others; both are right. Must pass, with a warning."""

import torch

__all__ = ["scaled_norm"]


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """`x / sqrt(mean(x ** 2) + eps) * weight`, row by row."""
    if x.shape[-1] == 512:
        # A sum of 512 in two steps.
        squares = x.square().unflatten(-1, (16, 32)).sum(dim=-1).sum(dim=-1, keepdim=True) / 512
    else:
        squares = x.square().mean(dim=-1, keepdim=True)
    result = x * torch.rsqrt(squares + eps) * weight
    return result if out is None else out.copy_(result)
