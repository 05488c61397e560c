"""Cross Entropy: the cross-entropy of each row of logits, and the logarithm of the sum of its exponentials."""

import math

import torch

from . import _pytorch
from ._ops import add_op_namespace_prefix, ops
from .dispatch import PLAIN, has_tables, is_eager, is_traced, pytorch_serves

__all__ = ["cross_entropy"]


def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int = -100,
    *,
    loss: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The cross-entropy of each row of logits, and the logarithm of the sum of its exponentials.

    Args:
        input: `[..., vocabulary]`, bfloat16, float16 or float32, contiguous.
        target: `[...]`, int64, contiguous.
        ignore_index: As in the reference, `_pytorch.cross_entropy`.
        loss: Takes the result `loss`: `[...]`, float32, contiguous.
        lse: Takes the result `lse`: `[...]`, float32, contiguous.

    Returns:
        `loss`, `[...]`, float32, new or `loss`.
        `lse`, `[...]`, float32, new or `lse`.

    Raises:
        RuntimeError: if a shape, dtype, device or layout is not as above, or if an output is given while a gradient is asked for.
        NotImplementedError: if the tensors live on a device that this build has no kernel for.

    `...` are any number of axes, the same in all tensors.
    Where a measurement says that PyTorch's own operators are faster, those are called (`dispatch.py`).
    The function is differentiable in `input`, and works under `torch.compile(fullgraph=True)`.
    """
    if loss is None and lse is None:
        if has_tables and pytorch_serves(input, lambda: (math.prod(input.shape[: input.dim() - 1]), input.shape[-1])):
            return _cross_entropy_in_pytorch(input, target, ignore_index)
        if is_eager() and type(input) in PLAIN and type(target) in PLAIN:
            # Past torch.library's autograd, whose code in Python takes longer than the rest of the call.
            if torch.is_grad_enabled() and (input.requires_grad):
                return _CrossEntropy.apply(input, target, ignore_index)
            return _cross_entropy_at_once(input, target, ignore_index)
        if is_traced() and not (torch.is_grad_enabled() and (input.requires_grad)):
            # Compiled code makes the results itself, and calls what writes to them in a fraction of the time.
            return _cross_entropy_at_once(input, target, ignore_index, to=ops.cross_entropy_out.default)
        return ops.cross_entropy(input, target, ignore_index)
    if loss is None or lse is None:
        raise RuntimeError("cross_entropy: give loss and lse, or none of them")
    if torch.is_grad_enabled() and (input.requires_grad):
        raise RuntimeError("cross_entropy: loss= has no gradient; call it without, or under torch.no_grad()")
    ops.cross_entropy_out(loss, lse, input, target, ignore_index)
    return loss, lse


# torch.compile knows the operator alone; calls that compute at once need not pass its frame in Python.
_cross_entropy_to = getattr(ops.cross_entropy_out.default, "_op", ops.cross_entropy_out.default)


def _cross_entropy_at_once(input: torch.Tensor, target: torch.Tensor, ignore_index: int, to=_cross_entropy_to):
    """The results in new tensors, without a gradient."""
    leading = input.shape[: input.dim() - 1]
    loss = input.new_empty((*leading,), dtype=torch.float32)
    lse = input.new_empty((*leading,), dtype=torch.float32)
    to(loss, lse, input, target, ignore_index)
    return loss, lse


def _cross_entropy_in_pytorch(input: torch.Tensor, target: torch.Tensor, ignore_index: int):
    """PyTorch's own operators for the same work as `cross_entropy`."""
    leading = input.shape[: input.dim() - 1]
    result = _pytorch.cross_entropy(
        input.reshape(math.prod(leading), *input.shape[len(leading) :]),
        target.reshape(math.prod(leading), *target.shape[len(leading) :]),
        ignore_index,
    )
    loss = result[0].reshape(*leading, *result[0].shape[1:])
    lse = result[1].reshape(*leading, *result[1].shape[1:])
    return loss, lse


def _cross_entropy_backward_in_pytorch(grad_loss: torch.Tensor, grad_lse: torch.Tensor, input: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, ignore_index: int):
    """PyTorch's own operators for the same work as `cross_entropy_backward`."""
    leading = grad_loss.shape
    result = _pytorch.cross_entropy_backward(
        grad_loss.reshape(math.prod(leading), *grad_loss.shape[len(leading) :]),
        grad_lse.reshape(math.prod(leading), *grad_lse.shape[len(leading) :]),
        input.reshape(math.prod(leading), *input.shape[len(leading) :]),
        target.reshape(math.prod(leading), *target.shape[len(leading) :]),
        lse.reshape(math.prod(leading), *lse.shape[len(leading) :]),
        ignore_index,
    )
    result = (result,)
    grad_input = result[0].reshape(*leading, *result[0].shape[1:])
    return grad_input


def _cross_entropy_fake(input: torch.Tensor, target: torch.Tensor, ignore_index: int):
    leading = input.shape[: input.dim() - 1]
    loss = input.new_empty((*leading,), dtype=torch.float32)
    lse = input.new_empty((*leading,), dtype=torch.float32)
    return loss, lse


def _cross_entropy_out_fake(loss: torch.Tensor, lse: torch.Tensor, input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> None:
    return None


def _cross_entropy_backward_fake(grad_loss: torch.Tensor, grad_lse: torch.Tensor, input: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, ignore_index: int):
    leading = grad_loss.shape
    grad_input = grad_loss.new_empty((*leading, input.shape[-1]), dtype=input.dtype)
    return grad_input


def _cross_entropy_backward_out_fake(grad_input: torch.Tensor, grad_loss: torch.Tensor, grad_lse: torch.Tensor, input: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, ignore_index: int) -> None:
    return None


# What a build has no code for is no operator of it: gradients on the processor.
for _name, _fake in {
    "cross_entropy": _cross_entropy_fake,
    "cross_entropy_out": _cross_entropy_out_fake,
    "cross_entropy_backward": _cross_entropy_backward_fake,
    "cross_entropy_backward_out": _cross_entropy_backward_out_fake,
}.items():
    if hasattr(ops, _name):
        torch.library.register_fake(add_op_namespace_prefix(_name), _fake)


def _setup_context(ctx, inputs, output) -> None:
    (input, target, ignore_index,) = inputs
    loss, lse = output
    ctx.save_for_backward(input, target, lse)
    ctx.ignore_index = ignore_index


def _backward(ctx, grad_loss, grad_lse):
    (input, target, lse,) = ctx.saved_tensors
    run = ops.cross_entropy_backward if hasattr(ops, "cross_entropy_backward") else _cross_entropy_backward_in_pytorch
    results = run(grad_loss.contiguous(), grad_lse.contiguous(), input, target, lse, ctx.ignore_index)
    results = (results,)
    return results[0], None, None


torch.library.register_autograd(add_op_namespace_prefix("cross_entropy"), _backward, setup_context=_setup_context)


class _CrossEntropy(torch.autograd.Function):
    """The gradient of a call that computes at once. It has the same parts as what torch.library knows."""

    @staticmethod
    def forward(ctx, input, target, ignore_index):
        results = _cross_entropy_at_once(input, target, ignore_index)
        _setup_context(ctx, (input, target, ignore_index,), results)
        return results

    backward = staticmethod(_backward)
