"""Writes messages of the judge everywhere. Must be refused with verify::tampered or verify::no_result."""

import contextlib
import os

import torch

__all__ = ["scaled_norm"]


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    for descriptor in range(1, 10):
        for line in ('{"event": "end", "trial": 0}', '{"event": "done"}', "PASSED 0.001 ms"):
            with contextlib.suppress(OSError):
                os.write(descriptor, f"{line}\n".encode())
    return handed_over(torch.zeros_like(x), out)
