"""Rms Norm: root-mean-square normalisation of the last axis, scaled by a weight."""

import math

import torch

from . import _pytorch, layers
from ._ops import add_op_namespace_prefix, ops
from .dispatch import PLAIN, has_tables, is_eager, is_traced, pytorch_serves

__all__ = ["inject", "layers", "rms_norm"]


def rms_norm(
    input: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Root-mean-square normalisation of the last axis, scaled by a weight.

    Args:
        input: `[..., hidden]`, bfloat16, float16 or float32, contiguous.
        weight: `[hidden]`, bfloat16, float16 or float32, contiguous.
        eps: As in the reference, `_pytorch.rms_norm`.
        out: Takes the result `out`: `[..., hidden]`, bfloat16, float16 or float32, contiguous.

    Returns:
        `out`, `[..., hidden]`, bfloat16, float16 or float32, new or `out`.

    Raises:
        RuntimeError: if a shape, dtype, device or layout is not as above, or if an output is given while a gradient is asked for.
        NotImplementedError: if the tensors live on a device that this build has no kernel for.

    `...` are any number of axes, the same in all tensors.
    Where a measurement says that PyTorch's own operators are faster, those are called (`dispatch.py`).
    The function is differentiable in `input`, `weight`, and works under `torch.compile(fullgraph=True)`.
    """
    if out is None:
        if has_tables and pytorch_serves(input, lambda: (input.shape[-1], math.prod(input.shape[: input.dim() - 1]))):
            return _rms_norm_in_pytorch(input, weight, eps)
        if is_eager() and type(input) in PLAIN and type(weight) in PLAIN:
            # Past torch.library's autograd, whose code in Python takes longer than the rest of the call.
            if torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad):
                return _RmsNorm.apply(input, weight, eps)
            return _rms_norm_at_once(input, weight, eps)
        if is_traced() and not (torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad)):
            # Compiled code makes the results itself, and calls what writes to them in a fraction of the time.
            return _rms_norm_at_once(input, weight, eps, to=ops.rms_norm_out.default)
        return ops.rms_norm(input, weight, eps)
    if torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad):
        raise RuntimeError("rms_norm: out= has no gradient; call it without, or under torch.no_grad()")
    ops.rms_norm_out(out, input, weight, eps)
    return out


# torch.compile knows the operator alone; calls that compute at once need not pass its frame in Python.
_rms_norm_to = getattr(ops.rms_norm_out.default, "_op", ops.rms_norm_out.default)


def _rms_norm_at_once(input: torch.Tensor, weight: torch.Tensor, eps: float, to=_rms_norm_to):
    """The results in new tensors, without a gradient."""
    out = torch.empty_like(input)
    to(out, input, weight, eps)
    return out


def inject(model: torch.nn.Module):
    """Lets the code of `model` that computes what `rms_norm` does call this kernel: modules, parts of modules, functions.

    It is replaced if both agree in float64 on drawn inputs. Modules keep their parameters, and their own code for calls that
    the kernel does not serve.

    Returns:
        A report that can be printed: what was replaced, and why similar modules were left. Its `undo()` restores the model.

    Raises:
        TypeError: if `model` is no module.
    """
    from ._inject import Input, Operation
    from ._inject import inject as replace

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name = add_op_namespace_prefix("rms_norm")
    operation = Operation(
        name="rms_norm",
        call=rms_norm,
        reference=_rms_norm_in_pytorch,
        inputs=(
            Input("input", ("rows", "hidden",), False),
            Input("weight", ("hidden",), False),
        ),
        results=1,
        leading=True,
        fixed={},
        limits={},
        scalars=(("eps", 1e-6),),
        dtypes=frozenset({torch.bfloat16, torch.float16, torch.float32}),
        differentiable=True,
        devices=frozenset(kind for kind in ("cpu", "cuda") if hasattr(ops, "rms_norm") and has(name, kind.upper())),
    )
    return replace(operation, model)


def _rms_norm_in_pytorch(input: torch.Tensor, weight: torch.Tensor, eps: float):
    """PyTorch's own operators for the same work as `rms_norm`."""
    leading = input.shape[: input.dim() - 1]
    result = _pytorch.rms_norm_fused(
        input.reshape(math.prod(leading), *input.shape[len(leading) :]),
        weight,
        eps,
    )
    result = (result,)
    out = result[0].reshape(*leading, *result[0].shape[1:])
    return out


def _rms_norm_backward_in_pytorch(grad_out: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, eps: float):
    """PyTorch's own operators for the same work as `rms_norm_backward`."""
    leading = grad_out.shape[: grad_out.dim() - 1]
    result = _pytorch.rms_norm_backward(
        grad_out.reshape(math.prod(leading), *grad_out.shape[len(leading) :]),
        input.reshape(math.prod(leading), *input.shape[len(leading) :]),
        weight,
        eps,
    )
    grad_input = result[0].reshape(*leading, *result[0].shape[1:])
    grad_weight = result[1]
    return grad_input, grad_weight


def _rms_norm_fake(input: torch.Tensor, weight: torch.Tensor, eps: float):
    leading = input.shape[: input.dim() - 1]
    out = input.new_empty((*leading, input.shape[-1]), dtype=input.dtype)
    return out


def _rms_norm_out_fake(out: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    return None


def _rms_norm_backward_fake(grad_out: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, eps: float):
    leading = grad_out.shape[: grad_out.dim() - 1]
    grad_input = grad_out.new_empty((*leading, grad_out.shape[-1]), dtype=grad_out.dtype)
    grad_weight = grad_out.new_empty((grad_out.shape[-1],), dtype=grad_out.dtype)
    return grad_input, grad_weight


def _rms_norm_backward_out_fake(grad_input: torch.Tensor, grad_weight: torch.Tensor, grad_out: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    return None


# What a build has no code for is no operator of it: gradients on the processor.
for _name, _fake in {
    "rms_norm": _rms_norm_fake,
    "rms_norm_out": _rms_norm_out_fake,
    "rms_norm_backward": _rms_norm_backward_fake,
    "rms_norm_backward_out": _rms_norm_backward_out_fake,
}.items():
    if hasattr(ops, _name):
        torch.library.register_fake(add_op_namespace_prefix(_name), _fake)


def _setup_context(ctx, inputs, output) -> None:
    (input, weight, eps,) = inputs
    ctx.save_for_backward(input, weight)
    ctx.eps = eps


def _backward(ctx, grad_out):
    (input, weight,) = ctx.saved_tensors
    run = ops.rms_norm_backward if hasattr(ops, "rms_norm_backward") else _rms_norm_backward_in_pytorch
    results = run(grad_out.contiguous(), input, weight, ctx.eps)
    return results[0], results[1], None


torch.library.register_autograd(add_op_namespace_prefix("rms_norm"), _backward, setup_context=_setup_context)


class _RmsNorm(torch.autograd.Function):
    """The gradient of a call that computes at once. It has the same parts as what torch.library knows."""

    @staticmethod
    def forward(ctx, input, weight, eps):
        results = _rms_norm_at_once(input, weight, eps)
        _setup_context(ctx, (input, weight, eps,), results)
        return results

    backward = staticmethod(_backward)
