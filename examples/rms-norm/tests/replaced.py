"""Modules that the package's layers replace. The tests hold a layer against its module."""

import torch


class RMSNorm(torch.nn.Module):
    """As transformers has it, rounded once."""

    def __init__(self, hidden: int, eps: float):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))
        self.variance_epsilon = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        wide = hidden_states.float()
        scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + self.variance_epsilon)
        return (wide * scale * self.weight.float()).to(hidden_states.dtype)


# The layer, a module that it replaces, the last axis of the module's input, whether the kernel serves and not PyTorch.
CASES = {
    "last-axis": ("RMSNorm", RMSNorm(64, eps=1e-3), 64, True),
}
