"""Multiplies a float32 tensor on the CPU by a number."""

import torch

from ._ops import ops

__all__ = ["scale"]


def scale(input: torch.Tensor, factor: float) -> torch.Tensor:
    return ops.scale(input, factor)
