"""Add Rms Norm: adds the input to a residual, in place, and normalises the sum by its root mean square, scaled by a weight."""

import math

import torch

from . import _pytorch
from ._ops import add_op_namespace_prefix, ops
from .dispatch import has_tables, pytorch_serves

__all__ = ["add_rms_norm"]


def add_rms_norm(
    input: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds the input to a residual, in place, and normalises the sum by its root mean square, scaled by a weight.

    Args:
        input: `[..., hidden]`, bfloat16, float16 or float32, contiguous.
        residual: `[..., hidden]`, bfloat16, float16 or float32, contiguous; it is overwritten.
        weight: `[hidden]`, bfloat16, float16 or float32, contiguous.
        eps: As in the reference, `_pytorch.add_rms_norm`.
        out: Takes the result `out`: `[..., hidden]`, bfloat16, float16 or float32, contiguous.

    Returns:
        `out`, `[..., hidden]`, bfloat16, float16 or float32, new or `out`.

    Raises:
        RuntimeError: if a shape, dtype, device or layout is not as above, or if an output is given while a gradient is asked for.
        NotImplementedError: if the tensors live on a device that this build has no kernel for.

    `...` are any number of axes, the same in all tensors.
    Where a measurement says that PyTorch's own operators are faster, those are called (`dispatch.py`).
    The function has no gradient. It works under `torch.compile(fullgraph=True)`.
    """
    if torch.is_grad_enabled() and (input.requires_grad or residual.requires_grad or weight.requires_grad):
        raise RuntimeError("add_rms_norm has no gradient: call it under torch.no_grad(), or detach its inputs")
    if out is None:
        if has_tables and pytorch_serves(input, lambda: (input.shape[-1], math.prod(input.shape[: input.dim() - 1]))):
            return _add_rms_norm_in_pytorch(input, residual, weight, eps)
        return ops.add_rms_norm(input, residual, weight, eps)
    ops.add_rms_norm_out(out, input, residual, weight, eps)
    return out


def _add_rms_norm_in_pytorch(input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float):
    """PyTorch's own operators for the same work as `add_rms_norm`."""
    leading = input.shape[: input.dim() - 1]
    result = _pytorch.add_rms_norm(
        input.reshape(math.prod(leading), *input.shape[len(leading) :]),
        residual.reshape(math.prod(leading), *residual.shape[len(leading) :]),
        weight,
        eps,
    )
    residual.copy_(result[1].view_as(residual))
    out = result[0].reshape(*leading, *result[0].shape[1:])
    return out


def _add_rms_norm_backward_in_pytorch(grad_out: torch.Tensor, grad_sum: torch.Tensor, sum: torch.Tensor, weight: torch.Tensor, eps: float):
    """PyTorch's own operators for the same work as `add_rms_norm_backward`."""
    leading = grad_out.shape[: grad_out.dim() - 1]
    result = _pytorch.add_rms_norm_backward(
        grad_out.reshape(math.prod(leading), *grad_out.shape[len(leading) :]),
        grad_sum.reshape(math.prod(leading), *grad_sum.shape[len(leading) :]),
        sum.reshape(math.prod(leading), *sum.shape[len(leading) :]),
        weight,
        eps,
    )
    grad_input = result[0].reshape(*leading, *result[0].shape[1:])
    grad_weight = result[1]
    return grad_input, grad_weight


def _add_rms_norm_fake(input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float):
    leading = input.shape[: input.dim() - 1]
    out = input.new_empty((*leading, input.shape[-1]), dtype=input.dtype)
    return out


def _add_rms_norm_out_fake(out: torch.Tensor, input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    return None


def _add_rms_norm_backward_fake(grad_out: torch.Tensor, grad_sum: torch.Tensor, sum: torch.Tensor, weight: torch.Tensor, eps: float):
    leading = grad_out.shape[: grad_out.dim() - 1]
    grad_input = grad_out.new_empty((*leading, grad_out.shape[-1]), dtype=grad_out.dtype)
    grad_weight = grad_out.new_empty((grad_out.shape[-1],), dtype=grad_out.dtype)
    return grad_input, grad_weight


def _add_rms_norm_backward_out_fake(grad_input: torch.Tensor, grad_weight: torch.Tensor, grad_out: torch.Tensor, grad_sum: torch.Tensor, sum: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    return None


# What a build has no code for is no operator of it: gradients on the processor.
for _name, _fake in {
    "add_rms_norm": _add_rms_norm_fake,
    "add_rms_norm_out": _add_rms_norm_out_fake,
    "add_rms_norm_backward": _add_rms_norm_backward_fake,
    "add_rms_norm_backward_out": _add_rms_norm_backward_out_fake,
}.items():
    if hasattr(ops, _name):
        torch.library.register_fake(add_op_namespace_prefix(_name), _fake)
