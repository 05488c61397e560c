"""Computes in every other call only. Must be refused with verify::fresh or verify::replayed or verify::numerics."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_state: dict = {"calls": 0, "last": {}}


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    _state["calls"] += 1
    shape = tuple(x.shape)
    if _state["calls"] % 2 or shape not in _state["last"]:
        _state["last"][shape] = compute(x, weight, eps)
    return handed_over(_state["last"][shape].clone(), out)
