"""Modules that the package's layers replace. The tests hold a layer against its module."""

import torch


class LogSoftmax(torch.nn.LogSoftmax):
    """A class of its own: `kernelize` marks the classes that it may replace."""


# The layer, a module that it replaces, the last axis of the module's input, whether the kernel serves and not PyTorch.
CASES = {
    "last-axis": ("LogSoftmax", LogSoftmax(dim=-1), 64, True),
    "last-of-three": ("LogSoftmax", LogSoftmax(dim=2), 64, True),
    "another-axis": ("LogSoftmax", LogSoftmax(dim=1), 64, False),
}
