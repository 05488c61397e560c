"""Layers in the form that `kernels.kernelize` swaps into a model: stateless, with `forward` alone."""

import torch

from ._ops import ops

# What the operator takes.
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class Softmax(torch.nn.Module):
    """Replaces the forward pass of `torch.nn.Softmax`.

    PyTorch serves where the axis is not the last one, in dtypes that the kernel does not have, and under autocast, which
    has a say in the dtype of the result.
    """

    can_torch_compile = True
    has_backward = True

    dim: int | None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The axis `dim` of the result has what the axis `dim` of `input` becomes."""
        if (
            input.dim() == 0
            or self.dim not in (-1, input.dim() - 1)
            or input.dtype not in DTYPES
            or torch.is_autocast_enabled(input.device.type)
        ):
            return torch.nn.functional.softmax(input, self.dim)
        return ops.softmax(input.contiguous())
