"""What `add_scale` computes when the sum is all that is asked for, in plain PyTorch."""

import torch


def add_scale(x: torch.Tensor, residual: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The sum of the inputs; computed in float32 at least, rounded once."""
    compute = torch.float64 if x.dtype == torch.float64 else torch.float32
    total = x.to(compute) + residual.to(compute)
    if bias is not None:
        total = total + bias.to(compute)
    return total.to(x.dtype)
