"""Modules that the package's layers replace. The tests hold a layer against its module."""

import torch


class LayerNorm(torch.nn.LayerNorm):
    """A class of its own: `kernelize` marks the classes that it may replace."""


# The layer, a module that it replaces, the last axis of the module's input, whether the kernel serves and not PyTorch.
CASES = {
    "last-axis": ("LayerNorm", LayerNorm(64, eps=1e-3), 64, True),
    "two-axes": ("LayerNorm", LayerNorm((5, 64)), 64, False),
    "no-bias": ("LayerNorm", LayerNorm(64, bias=False), 64, True),
    "not-affine": ("LayerNorm", LayerNorm(64, elementwise_affine=False), 64, False),
}
