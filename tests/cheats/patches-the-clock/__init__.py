"""Makes time.perf_counter run slower. Must be refused with verify::tampered."""

import time

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def slowed(clock):
    """A clock that runs at a hundredth of the speed."""
    start = clock()
    return lambda: start + (clock() - start) // 100


for _name in ("perf_counter", "perf_counter_ns", "monotonic", "time"):
    setattr(time, _name, slowed(getattr(time, _name)))


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    return handed_over(compute(x, weight, eps), out)
