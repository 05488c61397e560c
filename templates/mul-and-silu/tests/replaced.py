"""Modules that the package's layers replace. The tests hold a layer against its module."""

import torch
from torch.nn.functional import silu


class MulAndSilu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up, gate = x.chunk(2, dim=-1)
        return up * silu(gate)


# The layer, a module that it replaces, the last axis of the module's input, whether the kernel serves and not PyTorch.
CASES = {
    "silu": ("MulAndSilu", MulAndSilu(), 128, True),
}
