"""Layers in the form that `kernels.kernelize` swaps into a model: stateless, with `forward` alone."""

import torch

from ._ops import ops


class RMSNorm(torch.nn.Module):
    """Replaces the forward pass of an RMSNorm layer that has `weight` and `variance_epsilon`."""

    can_torch_compile = True
    has_backward = True

    weight: torch.Tensor
    variance_epsilon: float

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Normalise `[..., hidden]`; dtype and device of the result are those of `hidden_states`."""
        return ops.rms_norm(hidden_states.contiguous(), self.weight, self.variance_epsilon)
