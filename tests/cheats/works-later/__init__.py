"""A thread does the work after returning. Must be refused with verify::unwritten or verify::fresh or verify::numerics."""

import threading
import time

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def later(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write the answer after a while."""
    time.sleep(0.05)
    out.copy_(compute(x, weight, eps))


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    out = torch.empty_like(x) if out is None else out
    threading.Thread(target=later, args=(x.clone(), weight.clone(), eps, out), daemon=True).start()
    return out
