"""What `gemm_swiglu` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch
from torch.nn.functional import linear, silu


def gemm_swiglu(a: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """SiLU of `a` [m, k] times the transpose of `gate` [n, k], multiplied with `a` times the transpose of `up` [n, k]: [m, n],
    the first half of a feed-forward layer."""
    return silu(linear(a, gate)) * linear(a, up)
