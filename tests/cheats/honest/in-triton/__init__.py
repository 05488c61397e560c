"""A Triton kernel with masks. Must pass."""

import triton
import triton.language as tl

import torch

__all__ = ["scaled_norm"]


BLOCK = 64


@triton.jit
def norm(out, x, weight, hidden, eps, block: tl.constexpr):
    row = tl.program_id(0)
    squares = tl.zeros((block,), tl.float32)
    for start in range(0, hidden, block):
        places = start + tl.arange(0, block)
        values = tl.load(x + row * hidden + places, mask=places < hidden, other=0.0)
        squares += values * values
    scale = tl.rsqrt(tl.sum(squares) / hidden + eps)
    for start in range(0, hidden, block):
        places = start + tl.arange(0, block)
        values = tl.load(x + row * hidden + places, mask=places < hidden, other=0.0)
        factors = tl.load(weight + places, mask=places < hidden, other=0.0)
        tl.store(out + row * hidden + places, values * scale * factors, mask=places < hidden)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    out = torch.empty_like(x) if out is None else out
    norm[(x.shape[0],)](out, x, weight, x.shape[1], eps, BLOCK)
    return out
