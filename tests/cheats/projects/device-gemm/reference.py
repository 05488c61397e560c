"""What `product` computes, in plain PyTorch."""

import torch


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`a` times the transpose of `b`."""
    return a @ b.T
