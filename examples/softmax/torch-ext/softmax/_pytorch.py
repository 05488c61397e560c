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


def softmax_backward(grad_out: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    """The gradient of the input of `softmax`.

    Gradients are relative to that of the row's largest value. Where its exponential outweighs all others, the
    difference from the mean is lost otherwise, even in float64.
    """
    compute = torch.promote_types(input.dtype, torch.float32)
    g, x = grad_out.to(compute), input.to(compute)
    y = softmax(x)
    of_largest = g.gather(-1, x.argmax(dim=-1, keepdim=True))
    g = g - of_largest.nan_to_num(0.0, 0.0, 0.0)
    return (y * (g - (g * y).sum(dim=-1, keepdim=True))).to(input.dtype)
