"""What `gemm` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def gemm(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`a` [m, k] times the transpose of `b` [n, k], plus `bias` [n], if there is one: [m, n], as a linear layer has it."""
    return torch.nn.functional.linear(a, b, bias)


def gemm_backward(
    grad_out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of `a` [m, k], `b` [n, k] and the bias [n] of `gemm`; zeros for the bias, if there is none."""
    grad_bias = grad_out.new_zeros(b.shape[0]) if bias is None else grad_out.sum(dim=0)
    return grad_out @ b, grad_out.T @ a, grad_bias
