"""clamp(input, low, high) for float tensors."""

import torch

from ._ops import ops


def clamp(input, low, high, out=None):
    if out is None:
        out = torch.empty_like(input)
    ops.clamp(out, input, low, high)
    return out
