"""What `add_rms_norm` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def add_rms_norm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of `input` and `residual`, normalised by its root mean square and scaled by `weight`; and the sum itself.

    Half-precision tensors are computed in float32, and each result is rounded once, at the end; float64 stays float64.
    """
    compute = torch.promote_types(input.dtype, torch.float32)
    x = input.to(compute) + residual.to(compute)
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return (x * scale * weight.to(compute)).to(input.dtype), x.to(input.dtype)


def add_rms_norm_backward(
    grad_out: torch.Tensor, grad_sum: torch.Tensor, sum: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of the input and the weight of `add_rms_norm`, where its second result is `sum`. The gradient of the
    residual is that of the input."""
    compute = torch.promote_types(sum.dtype, torch.float32)
    g, x = grad_out.to(compute), sum.to(compute)
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    x = x * scale
    weighted = g * weight.to(compute)
    slope = (weighted * x).mean(dim=-1, keepdim=True)
    grad_input = scale * (weighted - x * slope) + grad_sum.to(compute)
    return grad_input.to(sum.dtype), (g * x).sum(dim=0).to(weight.dtype)
