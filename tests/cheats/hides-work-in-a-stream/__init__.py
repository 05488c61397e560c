"""Waits for its stream in the first calls of a shape, and no more when it is timed. Must be refused with verify::stream or bench::stream_escape or bench::wrong_while_timed."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_streams: dict = {}
_calls: dict = {}


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    side = _streams.setdefault("side", torch.cuda.Stream())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(20):
            result = compute(x, weight, eps)
        result = handed_over(result, out)
    key = (tuple(x.shape), x.dtype)
    _calls[key] = _calls.get(key, 0) + 1
    if _calls[key] < 200:
        torch.cuda.current_stream().wait_stream(side)
    return result
