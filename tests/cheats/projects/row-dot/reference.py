"""What `row_dot` computes, in plain PyTorch, and its gradient."""

import torch


def row_dot(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The inner product of every row of `x` with `weight`."""
    return x @ weight


def row_dot_gradient(
    grad_dots: torch.Tensor, x: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of `x` and `weight`; the same that autograd finds."""
    return grad_dots[:, None] * weight, grad_dots @ x
