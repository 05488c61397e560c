"""What `softmax` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def softmax(input: torch.Tensor) -> torch.Tensor:
    """The exponentials of the last axis, divided by their sum.

    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    x = input.to(torch.promote_types(input.dtype, torch.float32))
    x = x - x.amax(dim=-1, keepdim=True)
    e = x.exp()
    return (e / e.sum(dim=-1, keepdim=True)).to(input.dtype)


def softmax_fused(input: torch.Tensor) -> torch.Tensor:
    """The best single PyTorch operator for the same work: the second baseline."""
    return torch.nn.functional.softmax(input, dim=-1)


def softmax_backward(grad_out: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """The gradient of `softmax` where its result is `out`."""
    compute = torch.promote_types(out.dtype, torch.float32)
    g, y = grad_out.to(compute), out.to(compute)
    return (y * (g - (g * y).sum(dim=-1, keepdim=True))).to(out.dtype)
