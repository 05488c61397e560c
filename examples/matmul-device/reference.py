"""What `matmul` computes, in plain PyTorch."""

import torch


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`a`, of shape (m, k), times the transpose of `b`, of shape (n, k)."""
    return a @ b.T
