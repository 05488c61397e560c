"""KernelBench level 2, task 80: one value a row is left, and its mean over that axis is subtracted from it."""

import torch


def max_subtract_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    largest = (x @ weight.T + bias).max(dim=1, keepdim=True).values
    return torch.nn.functional.gelu(largest - largest.mean(dim=1, keepdim=True))
