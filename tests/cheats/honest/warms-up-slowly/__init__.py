"""Slow at first, right always. Must pass."""

import time

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_tried: dict = {}


def by_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The same by the norm of rows."""
    square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() / x.shape[-1]
    return x * torch.rsqrt(square + eps) * weight


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    times = _tried.setdefault(tuple(x.shape), {})
    for way in (compute, by_norm):
        if way not in times:
            start = time.perf_counter()
            result = way(x, weight, eps)
            times[way] = time.perf_counter() - start
            return handed_over(result, out)
    return handed_over(min(times, key=times.get)(x, weight, eps), out)
