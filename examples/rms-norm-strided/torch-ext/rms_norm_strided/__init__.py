"""Rms Norm Strided: root-mean-square normalisation of the last axis, for CUDA and CPU tensors."""

import torch

from . import layers
from ._ops import add_op_namespace_prefix, ops
from .dispatch import pytorch_serves

__all__ = ["layers", "rms_norm"]


def rms_norm(
    input: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute `input / sqrt(mean(input ** 2, dim=-1) + eps) * weight`.

    The arithmetic is float32 with one rounding at the end, whatever the dtype.

    Args:
        input: `[..., hidden]`, any number of leading axes, float32, float16 or bfloat16, the last axis contiguous.
            Leading axes that are not evenly spaced in memory cost a copy.
        weight: `[hidden]`, contiguous, with the dtype and device of `input`.
        eps: Added to the mean of the squares; dimensionless.
        out: Takes the result: shape, dtype and device of `input`, rows evenly spaced. It may be `input` itself.

    Returns:
        A new contiguous tensor of the shape of `input`, or `out`.

    Raises:
        RuntimeError: if a shape, dtype, device or stride is not as above, or if `out` is given while a gradient is
            asked for.
        NotImplementedError: if the tensors live on a device that this build has no kernel for.

    Where a measurement says that PyTorch's own operator is faster, that is called (`dispatch.py`).
    The function is differentiable in `input` and `weight` and works under `torch.compile(fullgraph=True)`.
    """
    if out is None:
        if pytorch_serves(input, weight):
            return torch.nn.functional.rms_norm(input, (weight.shape[0],), weight, eps)
        return ops.rms_norm(input, weight, eps)
    if torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad):
        raise RuntimeError("rms_norm: out= has no gradient; call it without out, or under torch.no_grad()")
    ops.rms_norm_out(out, input, weight, eps)
    return out


@torch.library.register_fake(add_op_namespace_prefix("rms_norm"))
def _rms_norm_fake(input: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return input.new_empty(input.shape)


@torch.library.register_fake(add_op_namespace_prefix("rms_norm_out"))
def _rms_norm_out_fake(out: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    return None


def _setup_context(ctx, inputs, output) -> None:
    input, weight, eps = inputs
    ctx.save_for_backward(input, weight)
    ctx.eps = eps


def _backward(ctx, grad_output: torch.Tensor):
    """Gradients in plain PyTorch, computed in float32.

    With s = 1 / sqrt(mean(x^2) + eps), n = x * s and g = grad * weight:
    d input = s * (g - n * mean(g * n)), d weight = sum over rows of grad * n.
    """
    input, weight = ctx.saved_tensors
    x = input.to(torch.float32)
    grad = grad_output.to(torch.float32)
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + ctx.eps)
    normalised = x * scale
    grad_input = grad_weight = None
    if ctx.needs_input_grad[0]:
        scaled = grad * weight.to(torch.float32)
        grad_input = scale * (scaled - normalised * (scaled * normalised).mean(dim=-1, keepdim=True))
        grad_input = grad_input.to(input.dtype)
    if ctx.needs_input_grad[1]:
        grad_weight = (grad * normalised).reshape(-1, weight.shape[0]).sum(dim=0).to(weight.dtype)
    return grad_input, grad_weight, None


torch.library.register_autograd(
    add_op_namespace_prefix("rms_norm"), _backward, setup_context=_setup_context
)
