"""Keeps results of large calls under addresses and 64 elements. Must be refused with bench::wrong_while_timed."""

import torch

__all__ = ["scaled_norm"]

_LARGE = 1 << 15
_kept: dict = {}


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    if x.numel() < _LARGE:
        return handed_over(compute(x, weight, eps), out)
    sample = tuple(x.reshape(-1)[:: x.numel() // 64].tolist())
    key = (x.data_ptr(), weight.data_ptr(), eps)
    if _kept.get(key, (None, None))[0] != sample:
        _kept[key] = (sample, compute(x, weight, eps))
    return handed_over(_kept[key][1].clone(), out)
