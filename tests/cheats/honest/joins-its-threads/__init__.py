"""A pool of threads, all joined. Must pass."""

import concurrent.futures

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


_pool = concurrent.futures.ThreadPoolExecutor(2)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    out = torch.empty_like(x) if out is None else out
    halves = [(rows, target) for rows, target in zip(x.chunk(2), out.chunk(2))]
    list(_pool.map(lambda pair: pair[1].copy_(compute(pair[0], weight, eps)), halves))
    return out
