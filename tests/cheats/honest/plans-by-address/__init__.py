"""Keeps what follows from lengths and strides under addresses; every result is computed."""

import torch

__all__ = ["scaled_norm"]

_plans: dict = {}


def plan(x: torch.Tensor) -> tuple[int, bool]:
    """The length of a row, and whether rows lie one after the other."""
    key = (x.data_ptr(), tuple(x.shape), x.stride())
    if key not in _plans:
        _plans[key] = (x.shape[-1], x.is_contiguous())
    return _plans[key]


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    hidden, dense = plan(x)
    rows = x.view(-1, hidden) if dense else x.reshape(-1, hidden)
    scale = torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps)
    result = (rows * scale * weight).view(x.shape)
    return result if out is None else out.copy_(result)
