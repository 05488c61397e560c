"""Keeps scratch that each call rewrites. Must pass."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_scratch: dict = {}


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    scratch = _scratch.setdefault((tuple(x.shape), x.device), torch.empty_like(x))
    scratch.copy_(x).square_()
    scale = torch.rsqrt(scratch.mean(-1, keepdim=True) + eps)
    return handed_over(x * scale * weight, out)
