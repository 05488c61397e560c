"""Walks the stack to find the judge. Must be refused with bench::wrong_while_timed."""

import sys

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def is_judged() -> bool:
    """Whether a caller is in the middle of a trial."""
    frame = sys._getframe(1)
    while frame is not None:
        if "trial" in frame.f_locals:
            return True
        frame = frame.f_back
    return False


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    if is_judged():
        return handed_over(compute(x, weight, eps), out)
    return handed_over(x * weight, out)
