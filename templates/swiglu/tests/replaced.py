"""Modules that the package's layers replace. The tests hold a layer against its module."""

import torch
from torch.nn.functional import silu


class SiluAndMul(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return silu(gate) * up


# The layer, a module that it replaces, the last axis of the module's input, whether the kernel serves and not PyTorch.
CASES = {
    "silu": ("SiluAndMul", SiluAndMul(), 128, True),
}
