"""A process stays and rewrites both sides. Must be refused with verify::tampered or verify::numerics."""

import contextlib
import glob
import os
import sys
import time

import torch

__all__ = ["scaled_norm"]


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def stay(folder: str) -> None:
    """Wait for expected values and make all of them zero."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for descriptor in range(10):
        with contextlib.suppress(OSError):
            os.close(descriptor)
    until = time.time() + 20
    while time.time() < until and os.path.isdir(folder):
        for path in glob.glob(os.path.join(folder, "expected", "*.bin")):
            with contextlib.suppress(OSError), open(path, "r+b") as file:
                file.write(bytes(os.path.getsize(path)))
        time.sleep(0.001)
    os._exit(0)


for _path in sys.path:
    if os.path.isdir(os.path.join(os.path.dirname(_path), "expected")):
        stay(os.path.dirname(_path))
        break


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    return handed_over(torch.zeros_like(x), out)
