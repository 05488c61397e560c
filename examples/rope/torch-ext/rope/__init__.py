"""Rope: rotates pairs of each head of queries and keys by angles that belong to the token's position."""

import torch

from . import _pytorch
from ._ops import add_op_namespace_prefix, ops
from .dispatch import PLAIN, has_tables, is_eager, is_traced, pytorch_serves

__all__ = ["rope"]


def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    interleaved: bool = False,
    *,
    q_out: torch.Tensor | None = None,
    k_out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates pairs of each head of queries and keys by angles that belong to the token's position.

    Args:
        q: `[tokens, heads, dim]`, bfloat16, float16 or float32, contiguous.
        k: `[tokens, kv_heads, dim]`, bfloat16, float16 or float32, contiguous.
        cos_sin: `[table, dim]`, bfloat16, float16 or float32, contiguous.
        positions: `[tokens]`, int64, contiguous; or None.
        interleaved: As in the reference, `_pytorch.rope`.
        q_out: Takes the result `q_out`: `[tokens, heads, dim]`, bfloat16, float16 or float32, contiguous.
        k_out: Takes the result `k_out`: `[tokens, kv_heads, dim]`, bfloat16, float16 or float32, contiguous.

    Returns:
        `q_out`, `[tokens, heads, dim]`, bfloat16, float16 or float32, new or `q_out`.
        `k_out`, `[tokens, kv_heads, dim]`, bfloat16, float16 or float32, new or `k_out`.

    Raises:
        RuntimeError: if a shape, dtype, device or layout is not as above, or if an output is given while a gradient is asked for.
        NotImplementedError: if the tensors live on a device that this build has no kernel for.
    Where a measurement says that PyTorch's own operators are faster, those are called (`dispatch.py`).
    The function is differentiable in `q`, `k`, and works under `torch.compile(fullgraph=True)`.
    """
    if q_out is None and k_out is None:
        if has_tables and pytorch_serves(q, lambda: (q.shape[-1], q.shape[-2], k.shape[-2], cos_sin.shape[-2], q.shape[-3])):
            return _rope_in_pytorch(q, k, cos_sin, positions, interleaved)
        if is_eager() and type(q) in PLAIN and type(k) in PLAIN and type(cos_sin) in PLAIN and type(positions) in PLAIN:
            # Past torch.library's autograd, whose code in Python takes longer than the rest of the call.
            if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or cos_sin.requires_grad):
                return _Rope.apply(q, k, cos_sin, positions, interleaved)
            return _rope_at_once(q, k, cos_sin, positions, interleaved)
        if is_traced() and not (torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or cos_sin.requires_grad)):
            # Compiled code makes the results itself, and calls what writes to them in a fraction of the time.
            return _rope_at_once(q, k, cos_sin, positions, interleaved, to=ops.rope_out.default)
        return ops.rope(q, k, cos_sin, positions, interleaved)
    if q_out is None or k_out is None:
        raise RuntimeError("rope: give q_out and k_out, or none of them")
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or cos_sin.requires_grad):
        raise RuntimeError("rope: q_out= has no gradient; call it without, or under torch.no_grad()")
    ops.rope_out(q_out, k_out, q, k, cos_sin, positions, interleaved)
    return q_out, k_out


# torch.compile knows the operator alone; calls that compute at once need not pass its frame in Python.
_rope_to = getattr(ops.rope_out.default, "_op", ops.rope_out.default)


def _rope_at_once(q: torch.Tensor, k: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None, interleaved: bool, to=_rope_to):
    """The results in new tensors, without a gradient."""
    q_out = torch.empty_like(q)
    k_out = torch.empty_like(k)
    to(q_out, k_out, q, k, cos_sin, positions, interleaved)
    return q_out, k_out


def _rope_in_pytorch(q: torch.Tensor, k: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None, interleaved: bool):
    """PyTorch's own operators for the same work as `rope`."""
    result = _pytorch.rope(
        q,
        k,
        cos_sin,
        positions,
        interleaved,
    )
    q_out = result[0]
    k_out = result[1]
    return q_out, k_out


def _rope_backward_in_pytorch(grad_q_out: torch.Tensor, grad_k_out: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None, interleaved: bool):
    """PyTorch's own operators for the same work as `rope_backward`."""
    result = _pytorch.rope_backward(
        grad_q_out,
        grad_k_out,
        cos_sin,
        positions,
        interleaved,
    )
    grad_q = result[0]
    grad_k = result[1]
    return grad_q, grad_k


def _rope_fake(q: torch.Tensor, k: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None, interleaved: bool):
    q_out = q.new_empty((q.shape[-3], q.shape[-2], q.shape[-1]), dtype=q.dtype)
    k_out = q.new_empty((q.shape[-3], k.shape[-2], q.shape[-1]), dtype=q.dtype)
    return q_out, k_out


def _rope_out_fake(q_out: torch.Tensor, k_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None, interleaved: bool) -> None:
    return None


def _rope_backward_fake(grad_q_out: torch.Tensor, grad_k_out: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None, interleaved: bool):
    grad_q = grad_q_out.new_empty((grad_q_out.shape[-3], grad_q_out.shape[-2], grad_q_out.shape[-1]), dtype=grad_q_out.dtype)
    grad_k = grad_q_out.new_empty((grad_q_out.shape[-3], grad_k_out.shape[-2], grad_q_out.shape[-1]), dtype=grad_q_out.dtype)
    return grad_q, grad_k


def _rope_backward_out_fake(grad_q: torch.Tensor, grad_k: torch.Tensor, grad_q_out: torch.Tensor, grad_k_out: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None, interleaved: bool) -> None:
    return None


# What a build has no code for is no operator of it: gradients on the processor.
for _name, _fake in {
    "rope": _rope_fake,
    "rope_out": _rope_out_fake,
    "rope_backward": _rope_backward_fake,
    "rope_backward_out": _rope_backward_out_fake,
}.items():
    if hasattr(ops, _name):
        torch.library.register_fake(add_op_namespace_prefix(_name), _fake)


def _setup_context(ctx, inputs, output) -> None:
    (q, k, cos_sin, positions, interleaved,) = inputs
    ctx.save_for_backward(cos_sin, positions)
    ctx.interleaved = interleaved


def _backward(ctx, grad_q_out, grad_k_out):
    (cos_sin, positions,) = ctx.saved_tensors
    run = ops.rope_backward if hasattr(ops, "rope_backward") else _rope_backward_in_pytorch
    results = run(grad_q_out.contiguous(), grad_k_out.contiguous(), cos_sin, positions, ctx.interleaved)
    return results[0], results[1], None, None, None


torch.library.register_autograd(add_op_namespace_prefix("rope"), _backward, setup_context=_setup_context)


class _Rope(torch.autograd.Function):
    """The gradient of a call that computes at once. It has the same parts as what torch.library knows."""

    @staticmethod
    def forward(ctx, q, k, cos_sin, positions, interleaved):
        results = _rope_at_once(q, k, cos_sin, positions, interleaved)
        _setup_context(ctx, (q, k, cos_sin, positions, interleaved,), results)
        return results

    backward = staticmethod(_backward)
