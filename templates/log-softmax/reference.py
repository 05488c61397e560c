"""What `log_softmax` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def log_softmax(input: torch.Tensor) -> torch.Tensor:
    """The logarithms of the exponentials of the last axis, divided by their sum.

    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    x = input.to(torch.promote_types(input.dtype, torch.float32))
    x = x - x.amax(dim=-1, keepdim=True)
    return (x - x.exp().sum(dim=-1, keepdim=True).log()).to(input.dtype)


def log_softmax_fused(input: torch.Tensor) -> torch.Tensor:
    """The best single PyTorch operator for the same work: the second baseline."""
    return torch.nn.functional.log_softmax(input, dim=-1)


def log_softmax_backward(grad_out: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    """The gradient of the input of `log_softmax`."""
    compute = torch.promote_types(input.dtype, torch.float32)
    g, x = grad_out.to(compute), input.to(compute)
    e = (x - x.amax(dim=-1, keepdim=True)).exp()
    return (g - e / e.sum(dim=-1, keepdim=True) * g.sum(dim=-1, keepdim=True)).to(input.dtype)
