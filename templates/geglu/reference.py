"""What `geglu` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import math

import torch
from torch.nn.functional import gelu


def geglu(input: torch.Tensor, tanh: bool = True) -> torch.Tensor:
    """GELU of `input[:, 0]` times `input[:, 1]`; in memory that is a row with the gates first, as vLLM's gelu_and_mul.

    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    gate, up = input.to(torch.promote_types(input.dtype, torch.float32)).unbind(1)
    return (gelu(gate, approximate="tanh" if tanh else "none") * up).to(input.dtype)


def geglu_backward(grad_out: torch.Tensor, input: torch.Tensor, tanh: bool = True) -> torch.Tensor:
    """The gradient of the input of `geglu`. Where the normal distribution has all of its share on one side of a gate, its
    slope is nothing. By tanh that share is sigmoid(2 inner), which is (1 + tanh(inner)) / 2."""
    compute = torch.promote_types(input.dtype, torch.float32)
    g = grad_out.to(compute)
    gate, up = input.to(compute).unbind(1)
    if tanh:
        factor = 2 * math.sqrt(2 / math.pi)
        share = (factor * (gate + 0.044715 * gate.pow(3))).sigmoid()
        slope = share * (1 - share)
        bend = gate * slope * (factor * (1 + 3 * 0.044715 * gate.square()))
    else:
        share = (1 + torch.erf(gate / math.sqrt(2))) / 2
        slope = (-gate.square() / 2).exp() / math.sqrt(2 * math.pi)
        bend = gate * slope
    derivative = torch.where(slope > 0, share + bend, share)
    return torch.stack((g * up * derivative, g * (gate * share)), 1).to(input.dtype)
