"""What `swiglu` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch
from torch.nn.functional import silu


def swiglu(input: torch.Tensor) -> torch.Tensor:
    """SiLU of `input[:, 0]` times `input[:, 1]`; in memory that is a row with the gates first, as vLLM's silu_and_mul.

    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    gate, up = input.to(torch.promote_types(input.dtype, torch.float32)).unbind(1)
    return (silu(gate) * up).to(input.dtype)


def swiglu_backward(grad_out: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    """The gradient of the input of `swiglu`. Where the sigmoid is 0 or 1 its slope is nothing."""
    compute = torch.promote_types(input.dtype, torch.float32)
    g = grad_out.to(compute)
    gate, up = input.to(compute).unbind(1)
    share = gate.sigmoid()
    slope = share * (1 - share)
    derivative = torch.where(slope > 0, share + gate * slope, share)
    return torch.stack((g * up * derivative, g * (gate * share)), 1).to(input.dtype)
