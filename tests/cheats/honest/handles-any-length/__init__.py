"""Every row in pieces of 64 with a tail, in one pass over a running maximum. Must pass."""

import torch

__all__ = ["row_softmax"]

PIECE = 64


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    """The exponentials of each row, divided by their sum."""
    largest = torch.full_like(x[:, :1], float("-inf"))
    total = torch.zeros_like(largest)
    for piece in x.split(PIECE, dim=-1):
        higher = torch.maximum(largest, piece.amax(dim=-1, keepdim=True))
        # Where all so far is minus infinity, the difference would be NaN.
        factor = torch.where(largest == higher, torch.ones_like(total), (largest - higher).exp())
        total = total * factor + (piece - higher).exp().sum(dim=-1, keepdim=True)
        largest = higher
    return (x - largest).exp() / total
