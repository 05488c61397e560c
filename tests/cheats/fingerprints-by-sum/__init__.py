"""Results are kept by a fingerprint that does not see the order of rows. Must be refused with verify::replayed."""

import torch

__all__ = ["wide_norm"]

_KEPT: dict = {}


def _fingerprint(tensor: torch.Tensor) -> int:
    return int(tensor.view(torch.int16).sum(dtype=torch.int64))


def wide_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """`x / sqrt(mean(x ** 2) + eps) * weight`, row by row."""
    key = (_fingerprint(x), _fingerprint(weight), eps, x.shape, x.dtype)
    if key not in _KEPT:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
        _KEPT[key] = (wide * scale * weight.float()).to(x.dtype)
    return _KEPT[key].clone()
