"""Knows the inputs of common seeds. Must be refused with verify::numerics or verify::insensitive."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_SEEDS = (0, 1, 42, 123, 1234, 2024)
_known: dict = {}


def known(x: torch.Tensor):
    """The seed whose first normal numbers these are, if there is one."""
    for seed in _SEEDS:
        if seed not in _known:
            _known[seed] = torch.randn(8, generator=torch.Generator().manual_seed(seed))
        if torch.allclose(_known[seed], x.reshape(-1)[:8]):
            return seed
    return None


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    if known(x) is not None:
        return handed_over(compute(x, weight, eps), out)
    return handed_over(x * weight, out)
