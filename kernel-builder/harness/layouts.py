"""Runs PyTorch's convolutions in channels-last layout, where cuDNN has other algorithms with other errors.

Owns: the layout of their tensors. Never: decides what an error is measured for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from modes import Mode

# Layouts by the number of axes of a tensor.
LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


def layouts(inputs: Sequence[torch.Tensor | None]) -> Iterator[AbstractContextManager[object]]:
    """The layouts in which a function of these tensors may call convolutions: as they are first, then channels-last."""
    yield nullcontext()
    if any(one is not None and one.dim() in LAYOUTS for one in inputs):
        yield ChannelsLast()


class ChannelsLast(Mode):
    """Passes the input of convolutions in channels-last layout, and returns contiguous results."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operator."""
        if func.overloadpacket.__name__ != "convolution" or args[0].dim() not in LAYOUTS:
            return func(*args, **(kwargs or {}))
        given = args[0].contiguous(memory_format=LAYOUTS[args[0].dim()])
        return func(given, *args[1:], **(kwargs or {})).contiguous()
