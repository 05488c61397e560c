"""All streams share one scratch buffer. Must be refused with verify::numerics or verify::fresh or verify::replayed."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_scratch: dict = {}


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    scratch = _scratch.setdefault(tuple(x.shape), torch.empty_like(x))
    scratch.copy_(x)
    for _ in range(16):
        scratch.mul_(2).mul_(0.5)
    return handed_over(compute(scratch, weight, eps), out)
