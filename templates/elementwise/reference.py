"""What `elementwise` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline.

The same chain is written where the sources say `hole: expression`, for the device and for the processor; change all.
"""

import torch
from torch.nn.functional import silu


def elementwise(
    input: torch.Tensor, residual: torch.Tensor, scale: float = 0.5, shift: float = 0.125
) -> torch.Tensor:
    """SiLU of `input * scale + residual + shift`, element by element.

    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    compute = torch.promote_types(input.dtype, torch.float32)
    return silu(input.to(compute) * scale + residual.to(compute) + shift).to(input.dtype)
