"""Keeps results under the address and 64 elements. Must be refused with verify::replayed or verify::fresh or verify::state."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_kept: dict = {}


def sample(tensor: torch.Tensor) -> tuple:
    """The address, and 64 elements that are evenly spread."""
    flat = tensor.reshape(-1)
    places = torch.linspace(0, flat.numel() - 1, 64).long()
    return tensor.data_ptr(), tuple(flat[places].tolist())


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    key = (tuple(x.shape), sample(x), sample(weight), eps)
    if key not in _kept:
        _kept[key] = compute(x, weight, eps)
    return handed_over(_kept[key].clone(), out)
