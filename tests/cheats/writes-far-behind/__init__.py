"""Writes an element 40 kB behind its output. Must be refused with verify::guard.

It does so only where that memory is the judge's: elsewhere the write may end the process, which needs no guards.
"""

import torch

__all__ = ["scaled_norm"]

AWAY = 10_000


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """`x / sqrt(mean(x ** 2) + eps) * weight`, row by row."""
    result = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight
    if out is None:
        return result
    behind = out.storage_offset() + out.numel() + AWAY
    if (behind + 1) * out.element_size() <= out.untyped_storage().nbytes():
        out.as_strided((1,), (1,), behind).fill_(1.0)
    return out.copy_(result)
