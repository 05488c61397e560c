"""Replaces the function that keeps results. Must be refused with verify::tampered."""

import sys

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_last: dict = {}


def rewritten(write):
    """Writes the right answer in the place of the last tensor."""

    def write_right(path, tensors):
        *others, last = tensors
        right = compute(*_last["arguments"])
        if last.numel() == right.numel() and last.dtype == right.dtype:
            return write(path, [*others, right])
        front = (last.numel() - right.numel() * 4) // 2
        last[front : front + right.numel() * 4] = right.reshape(-1).view(torch.uint8)
        return write(path, [*others, last])

    return write_right


for _name in ("tensors", "candidate"):
    if _name in sys.modules:
        sys.modules[_name].write_tensors = rewritten(sys.modules[_name].write_tensors)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    _last["arguments"] = (x, weight, eps)
    return handed_over(torch.zeros_like(x), out)
