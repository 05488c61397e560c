"""What `layer_norm` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def layer_norm(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, eps: float = 1e-6
) -> torch.Tensor:
    """Normalise the last axis of `input` to mean 0 and variance 1, scale it by `weight` and add `bias`, if there
    is one.

    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    compute = torch.promote_types(input.dtype, torch.float32)
    x = input.to(compute)
    x = x - x.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    x = x * scale * weight.to(compute)
    if bias is not None:
        x = x + bias.to(compute)
    return x.to(input.dtype)


def layer_norm_fused(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, eps: float = 1e-6
) -> torch.Tensor:
    """The best single PyTorch operator for the same work: the second baseline."""
    return torch.nn.functional.layer_norm(input, (input.shape[-1],), weight, bias, eps)


def layer_norm_backward(
    grad_out: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of the input, the weight and the bias of `layer_norm`; that of the bias, too, where there is none."""
    compute = torch.promote_types(input.dtype, torch.float32)
    g, x = grad_out.to(compute), input.to(compute)
    x = x - x.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    x = x * scale
    weighted = g * weight.to(compute)
    even = weighted.mean(dim=-1, keepdim=True)
    slope = (weighted * x).mean(dim=-1, keepdim=True)
    grad_input = (scale * (weighted - even - x * slope)).to(input.dtype)
    return grad_input, (g * x).sum(dim=0).to(weight.dtype), g.sum(dim=0).to(weight.dtype)
