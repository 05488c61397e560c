"""Imports PyTorch's compiler, which puts functions of torch in envelopes. Must pass."""

import torch
import torch._dynamo

# What a package that registers operators for torch.compile does, directly or not.
COMPILER = torch._dynamo

__all__ = ["scaled_norm"]


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    mean = x.square().mean(-1, keepdim=True)
    return handed_over(x * torch.rsqrt(mean + eps) * weight, out)
