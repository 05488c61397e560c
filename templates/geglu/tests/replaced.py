"""Modules that the package's layers replace. The tests hold a layer against its module."""

import torch
from torch.nn.functional import gelu


class GeluAndMul(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return gelu(gate) * up


class GeluTanhAndMul(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return gelu(gate, approximate="tanh") * up


# The layer, a module that it replaces, the last axis of the module's input, whether the kernel serves and not PyTorch.
CASES = {
    "gelu": ("GeluAndMul", GeluAndMul(), 128, True),
    "gelu-tanh": ("GeluTanhAndMul", GeluTanhAndMul(), 128, True),
}
