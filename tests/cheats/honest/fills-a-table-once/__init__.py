"""Fills a table in its first call. Must pass."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_tables: dict = {}


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    hidden = x.shape[-1]
    if hidden not in _tables:
        _tables[hidden] = torch.full((hidden,), 1.0 / hidden)
    scale = torch.rsqrt((x.square() @ _tables[hidden].to(x.device)).unsqueeze(-1) + eps)
    return handed_over(x * scale * weight, out)
