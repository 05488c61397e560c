"""What `scale_add` leaves in `x`, in plain PyTorch."""

import torch


def scale_add(x: torch.Tensor, y: torch.Tensor, *, scale: float = 0.5) -> torch.Tensor:
    """`x + scale * y`, as a new tensor."""
    return x + scale * y
