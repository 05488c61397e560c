"""Returns the same memory every time. Must be refused with verify::malformed."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


_outputs: dict = {}


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    result = compute(x, weight, eps)
    if out is not None:
        return out.copy_(result)
    return _outputs.setdefault(tuple(x.shape), torch.empty_like(x)).copy_(result)
