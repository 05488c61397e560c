"""Tensors in another floating-point dtype.

Owns: that anything else stays as it is. Never: rounds integers.
"""

from collections.abc import Sequence

import torch


def cast_to(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A floating-point tensor in another dtype; anything else as it is."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def cast(tensors: Sequence[torch.Tensor | None], dtype: torch.dtype) -> list[torch.Tensor | None]:
    """Floating-point tensors in `dtype`; anything else as it is."""
    return [None if one is None else cast_to(one, dtype) for one in tensors]
