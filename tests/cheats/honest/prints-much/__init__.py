"""Prints, warns, reads its own files. Must pass."""

import pathlib
import warnings

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_LENGTH = len(pathlib.Path(__file__).read_text())


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    print("PASSED, says the kernel of", _LENGTH, "characters", flush=True)
    warnings.warn("this is only a test", stacklevel=2)
    return handed_over(compute(x, weight, eps), out)
