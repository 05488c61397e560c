"""What `add_scale` computes, in plain PyTorch."""

import torch


def add_scale(
    x: torch.Tensor, residual: torch.Tensor, bias: torch.Tensor | None = None, factor: float = 0.5
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of the inputs, and the sum times `factor`; computed in float32 at least, rounded once."""
    compute = torch.float64 if x.dtype == torch.float64 else torch.float32
    total = x.to(compute) + residual.to(compute)
    if bias is not None:
        total = total + bias.to(compute)
    return total.to(x.dtype), (total * factor).to(x.dtype)
