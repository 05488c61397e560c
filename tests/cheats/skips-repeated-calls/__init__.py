"""Leaves the output alone if the last call had the same tensors. Must be refused with verify::unwritten."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_last: tuple = ()


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    global _last
    call = (x.data_ptr(), weight.data_ptr(), tuple(x.shape), eps, None if out is None else out.data_ptr())
    if out is not None and call == _last:
        return out
    _last = call
    return handed_over(compute(x, weight, eps), out)
