"""The gradient of log-softmax, with exponentials in the dtype of the output."""

import torch

__all__ = ["wide_norm"]


def wide_norm(grad: torch.Tensor, x: torch.Tensor, lse: torch.Tensor) -> torch.Tensor:
    """`grad - exp(x - lse) * sum(grad)`, row by row."""
    wide = grad.float()
    softmax = (x.float() - lse.unsqueeze(-1)).exp().half().float()
    return (wide - softmax * wide.sum(dim=-1, keepdim=True)).to(x.dtype)
