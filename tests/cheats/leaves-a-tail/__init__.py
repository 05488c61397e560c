"""Computes half of the rows on an unjoined stream. Must be refused with verify::stream or verify::unwritten or verify::fresh or verify::numerics or verify::replayed."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_streams: dict = {}


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    out = torch.empty_like(x) if out is None else out
    half = x.shape[0] // 2
    side = _streams.setdefault("side", torch.cuda.Stream())
    side.wait_stream(torch.cuda.current_stream())
    out[:half] = compute(x[:half], weight, eps)
    with torch.cuda.stream(side):
        out[half:] = compute(x[half:], weight, eps)
    return out
