"""The inner product of every row with one vector, differentiable."""

import torch

from ._ops import add_op_namespace_prefix, ops

__all__ = ["row_dot"]


def row_dot(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The inner product of every row of `x`, of any strides, with `weight`."""
    return ops.row_dot(x, weight)


def _setup_context(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad_dots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, weight = ctx.saved_tensors
    return grad_dots[:, None] * weight, grad_dots @ x


torch.library.register_autograd(add_op_namespace_prefix("row_dot"), _backward, setup_context=_setup_context)
