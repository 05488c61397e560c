"""Keeps code for each shape, no results. Must pass."""

import functools

import torch

__all__ = ["scaled_norm"]


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


@functools.cache
def specialised(hidden: int, eps: float):
    """The computation for one length."""
    scale = 1.0 / hidden

    def apply(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt((x * x).sum(-1, keepdim=True) * scale + eps) * weight

    return apply


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    return handed_over(specialised(x.shape[-1], eps)(x, weight), out)
