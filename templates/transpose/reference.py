"""What `transpose` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def transpose(input: torch.Tensor) -> torch.Tensor:
    """`input` [batch, rows, cols] as dense [batch, cols, rows]."""
    return input.transpose(-2, -1).clone(memory_format=torch.contiguous_format)
