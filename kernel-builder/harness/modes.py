"""The base of the dispatch modes that change what PyTorch's operators compute.

Owns: what they have in common. Never: changes an operator.
"""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    """A dispatch mode for calls outside of `torch.compile`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: PyTorch 2.11 and later would import its compiler for that, which takes two seconds."""
        return False
