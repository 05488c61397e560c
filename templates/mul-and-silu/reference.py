"""What `mul_and_silu` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch
from torch.nn.functional import silu


def mul_and_silu(input: torch.Tensor) -> torch.Tensor:
    """`input[:, 0]` times the SiLU of `input[:, 1]`; in memory that is a row with the gates last, as diffusers' SwiGLU.

    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    up, gate = input.to(torch.promote_types(input.dtype, torch.float32)).unbind(1)
    return (silu(gate) * up).to(input.dtype)


def mul_and_silu_backward(grad_out: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    """The gradient of the input of `mul_and_silu`. Where the sigmoid is 0 or 1 its slope is nothing."""
    compute = torch.promote_types(input.dtype, torch.float32)
    g = grad_out.to(compute)
    up, gate = input.to(compute).unbind(1)
    share = gate.sigmoid()
    slope = share * (1 - share)
    derivative = torch.where(slope > 0, share + gate * slope, share)
    return torch.stack((g * (gate * share), g * up * derivative), 1).to(input.dtype)
