"""A matrix of 8-bit integers with a scale for each row, times a vector."""

import torch


def dequantize_matvec(weight: torch.Tensor, scale: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """`weight` [rows, cols] of int8 times `scale` [rows], then the product with `x` [cols]: a result for each row."""
    return (weight * x).sum(dim=-1) * scale


def example_inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Arguments of a call."""
    weight = torch.randint(-128, 128, (6, 48), dtype=torch.int8)
    return weight, torch.rand(6), torch.randn(48)
