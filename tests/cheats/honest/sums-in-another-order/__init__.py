"""Adds in an order of its own. Must pass."""

import torch

__all__ = ["scaled_norm"]


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    half = x.shape[-1] // 2
    total = x[:, :half].square().sum(-1, keepdim=True) + x[:, half:].square().sum(-1, keepdim=True)
    return handed_over(x * torch.rsqrt(total / x.shape[-1] + eps) * weight, out)
