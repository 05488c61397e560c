"""Writes beyond rows of its own workspace. Must pass."""

import torch

__all__ = ["scaled_norm"]


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    rows, hidden = x.shape
    padded = torch.zeros(rows + 1, hidden + 7)
    padded[:rows, :hidden] = x
    padded.mul_(torch.rsqrt(padded.square().sum(-1, keepdim=True) / hidden + eps))
    result = padded[:rows, :hidden] * weight
    padded.fill_(torch.nan)
    return handed_over(result, out)
