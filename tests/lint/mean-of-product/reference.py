"""As KernelBench level 2, task 51: the mean of a product is a product with a mean."""

import torch


def mean_of_product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (x @ weight).mean(dim=1)
