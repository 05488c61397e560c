"""Softmax: the exponentials of a row, divided by their sum."""

import math

import torch

from . import _pytorch, layers
from ._ops import add_op_namespace_prefix, ops
from .dispatch import PLAIN, has_tables, is_eager, is_traced, pytorch_serves

__all__ = ["inject", "layers", "softmax"]


def softmax(
    input: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """The exponentials of a row, divided by their sum.

    Args:
        input: `[..., hidden]`, bfloat16, float16 or float32, contiguous.
        out: Takes the result `out`: `[..., hidden]`, bfloat16, float16 or float32, contiguous.

    Returns:
        `out`, `[..., hidden]`, bfloat16, float16 or float32, new or `out`.

    Raises:
        RuntimeError: if a shape, dtype, device or layout is not as above, or if an output is given while a gradient is asked for.
        NotImplementedError: if the tensors live on a device that this build has no kernel for.

    `...` are any number of axes, the same in all tensors.
    Where a measurement says that PyTorch's own operators are faster, those are called (`dispatch.py`).
    The function is differentiable in `input`, and works under `torch.compile(fullgraph=True)`.
    """
    if out is None:
        if has_tables and pytorch_serves(input, lambda: (input.shape[-1], math.prod(input.shape[: input.dim() - 1]))):
            return _softmax_in_pytorch(input)
        if is_eager() and type(input) in PLAIN:
            # Past torch.library's autograd, whose code in Python takes longer than the rest of the call.
            if torch.is_grad_enabled() and (input.requires_grad):
                return _Softmax.apply(input)
            return _softmax_at_once(input)
        if is_traced() and not (torch.is_grad_enabled() and (input.requires_grad)):
            # Compiled code makes the results itself, and calls what writes to them in a fraction of the time.
            return _softmax_at_once(input, to=ops.softmax_out.default)
        return ops.softmax(input)
    if torch.is_grad_enabled() and (input.requires_grad):
        raise RuntimeError("softmax: out= has no gradient; call it without, or under torch.no_grad()")
    ops.softmax_out(out, input)
    return out


# torch.compile knows the operator alone; calls that compute at once need not pass its frame in Python.
_softmax_to = getattr(ops.softmax_out.default, "_op", ops.softmax_out.default)


def _softmax_at_once(input: torch.Tensor, to=_softmax_to):
    """The results in new tensors, without a gradient."""
    out = torch.empty_like(input)
    to(out, input)
    return out


def inject(model: torch.nn.Module):
    """Lets the code of `model` that computes what `softmax` does call this kernel: modules, parts of modules, functions.

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
    name = add_op_namespace_prefix("softmax")
    operation = Operation(
        name="softmax",
        call=softmax,
        reference=_softmax_in_pytorch,
        inputs=(
            Input("input", ("rows", "hidden",), False),
        ),
        results=1,
        leading=True,
        fixed={},
        limits={},
        scalars=(),
        dtypes=frozenset({torch.bfloat16, torch.float16, torch.float32}),
        differentiable=True,
        devices=frozenset(kind for kind in ("cpu", "cuda") if hasattr(ops, "softmax") and has(name, kind.upper())),
    )
    return replace(operation, model)


def _softmax_in_pytorch(input: torch.Tensor):
    """PyTorch's own operators for the same work as `softmax`."""
    leading = input.shape[: input.dim() - 1]
    result = _pytorch.softmax_fused(
        input.reshape(math.prod(leading), *input.shape[len(leading) :]),
    )
    result = (result,)
    out = result[0].reshape(*leading, *result[0].shape[1:])
    return out


def _softmax_backward_in_pytorch(grad_out: torch.Tensor, input: torch.Tensor):
    """PyTorch's own operators for the same work as `softmax_backward`."""
    leading = grad_out.shape[: grad_out.dim() - 1]
    result = _pytorch.softmax_backward(
        grad_out.reshape(math.prod(leading), *grad_out.shape[len(leading) :]),
        input.reshape(math.prod(leading), *input.shape[len(leading) :]),
    )
    result = (result,)
    grad_input = result[0].reshape(*leading, *result[0].shape[1:])
    return grad_input


def _softmax_fake(input: torch.Tensor):
    leading = input.shape[: input.dim() - 1]
    out = input.new_empty((*leading, input.shape[-1]), dtype=input.dtype)
    return out


def _softmax_out_fake(out: torch.Tensor, input: torch.Tensor) -> None:
    return None


def _softmax_backward_fake(grad_out: torch.Tensor, input: torch.Tensor):
    leading = grad_out.shape[: grad_out.dim() - 1]
    grad_input = grad_out.new_empty((*leading, grad_out.shape[-1]), dtype=grad_out.dtype)
    return grad_input


def _softmax_backward_out_fake(grad_input: torch.Tensor, grad_out: torch.Tensor, input: torch.Tensor) -> None:
    return None


# What a build has no code for is no operator of it: gradients on the processor.
for _name, _fake in {
    "softmax": _softmax_fake,
    "softmax_out": _softmax_out_fake,
    "softmax_backward": _softmax_backward_fake,
    "softmax_backward_out": _softmax_backward_out_fake,
}.items():
    if hasattr(ops, _name):
        torch.library.register_fake(add_op_namespace_prefix(_name), _fake)


def _setup_context(ctx, inputs, output) -> None:
    (input,) = inputs
    ctx.save_for_backward(input)


def _backward(ctx, grad_out):
    (input,) = ctx.saved_tensors
    run = ops.softmax_backward if hasattr(ops, "softmax_backward") else _softmax_backward_in_pytorch
    results = run(grad_out.contiguous(), input)
    results = (results,)
    return results[0]


torch.library.register_autograd(add_op_namespace_prefix("softmax"), _backward, setup_context=_setup_context)


class _Softmax(torch.autograd.Function):
    """The gradient of a call that computes at once. It has the same parts as what torch.library knows."""

    @staticmethod
    def forward(ctx, input):
        results = _softmax_at_once(input)
        _setup_context(ctx, (input,), results)
        return results

    backward = staticmethod(_backward)
