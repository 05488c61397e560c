"""What `rms_norm` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def rms_norm(input: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Normalise the last axis of `input` by its root mean square and scale it by `weight`.

    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    compute = torch.promote_types(input.dtype, torch.float32)
    x = input.to(compute)
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return (x * scale * weight.to(compute)).to(input.dtype)


def rms_norm_fused(input: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """The best single PyTorch operator for the same work: the second baseline."""
    return torch.nn.functional.rms_norm(input, (input.shape[-1],), weight, eps)


def rms_norm_backward(
    grad_out: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of the input and the weight of `rms_norm`."""
    compute = torch.promote_types(input.dtype, torch.float32)
    g, x = grad_out.to(compute), input.to(compute)
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    x = x * scale
    weighted = g * weight.to(compute)
    slope = (weighted * x).mean(dim=-1, keepdim=True)
    return (scale * (weighted - x * slope)).to(input.dtype), (g * x).sum(dim=0).to(weight.dtype)
