"""Two right ways, by shape and values. Must pass."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    if x.shape[-1] < 256 or float(x.abs().max()) > 100:
        largest = x.abs().amax(-1, keepdim=True).clamp_min(1e-30)
        small = x / largest
        scale = torch.rsqrt(small.square().mean(-1, keepdim=True) + eps / largest.square())
        return handed_over(small * scale * weight, out)
    return handed_over(compute(x, weight, eps), out)
