"""Hands out 64 outputs in turn. Must be refused with verify::malformed."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_rings: dict = {}
_calls: dict = {}


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    if out is not None:
        return out.copy_(compute(x, weight, eps))
    ring = _rings.setdefault(tuple(x.shape), [torch.empty_like(x) for _ in range(64)])
    _calls[x.shape] = _calls.get(x.shape, 0) + 1
    return ring[_calls[x.shape] % 64].copy_(compute(x, weight, eps))
