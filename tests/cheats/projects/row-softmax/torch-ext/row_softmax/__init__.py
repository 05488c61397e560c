"""Softmax of rows."""

import torch

__all__ = ["row_softmax"]


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    """The exponentials of each row, divided by their sum."""
    e = (x - x.amax(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-1, keepdim=True)
