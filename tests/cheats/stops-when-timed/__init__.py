"""Stops after 600 calls of a shape. Must be refused with bench::wrong_while_timed or verify::fresh."""

import collections

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_calls: dict = collections.Counter()
_last: dict = {}


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    shape = tuple(x.shape)
    _calls[shape] += 1
    if _calls[shape] <= 600 or shape not in _last:
        _last[shape] = compute(x, weight, eps)
    return handed_over(_last[shape].clone(), out)
