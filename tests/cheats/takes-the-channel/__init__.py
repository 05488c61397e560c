"""Reports success on the harness's channel. Must be refused with verify::tampered."""

import gc
import os
import sys

import torch

__all__ = ["scaled_norm"]


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    for one in gc.get_objects():
        if type(one).__name__ == "Channel" and hasattr(one, "send"):
            events = sys.modules["protocol_verify"]
            for trial in range(1000):
                one.send(events.Begin(trial=trial))
                one.send(events.End(trial=trial))
            one.send(events.Done(opened=[]))
            os._exit(0)
    return handed_over(torch.zeros_like(x), out)
