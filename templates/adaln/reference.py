"""What `adaln` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def adaln(input: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Normalise the last axis of `input` [batch, tokens, hidden] to mean 0 and variance 1; then times `1 + scale`, plus
    `shift`, which are [batch, hidden].

    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    compute = torch.promote_types(input.dtype, torch.float32)
    x = input.to(compute)
    x = x - x.mean(dim=-1, keepdim=True)
    x = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return (x * (1 + scale.to(compute)).unsqueeze(1) + shift.to(compute).unsqueeze(1)).to(input.dtype)


def adaln_backward(
    grad_out: torch.Tensor, input: torch.Tensor, scale: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of the input, the scale and the shift of `adaln`."""
    compute = torch.promote_types(input.dtype, torch.float32)
    g, x = grad_out.to(compute), input.to(compute)
    x = x - x.mean(dim=-1, keepdim=True)
    factor = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    x = x * factor
    weighted = g * (1 + scale.to(compute)).unsqueeze(1)
    even = weighted.mean(dim=-1, keepdim=True)
    slope = (weighted * x).mean(dim=-1, keepdim=True)
    grad_input = (factor * (weighted - even - x * slope)).to(input.dtype)
    return grad_input, (g * x).sum(dim=1).to(scale.dtype), g.sum(dim=1).to(scale.dtype)
