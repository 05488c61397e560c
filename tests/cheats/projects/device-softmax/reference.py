"""What `softmax` computes, in plain PyTorch."""

import torch


def softmax(input: torch.Tensor) -> torch.Tensor:
    """The exponentials of every row, divided by their sum."""
    return torch.softmax(input, dim=-1)
