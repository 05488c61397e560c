"""Layers in the form that `kernels.kernelize` swaps into a model: stateless, with `forward` alone."""

import torch

from ._ops import ops


class SiluAndMul(torch.nn.Module):
    """Replaces a layer that multiplies the SiLU of the first half of a row with the second half."""

    can_torch_compile = True
    has_backward = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[..., 2 * hidden]`, the gates first, becomes `[..., hidden]` of the same dtype on the same device."""
        return ops.swiglu(x.contiguous().unflatten(-1, (2, -1)))
