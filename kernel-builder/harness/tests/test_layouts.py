"""Convolutions in channels-last layout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).parent.parent))

from layouts import ChannelsLast, layouts


class Watch(TorchDispatchMode):
    """Remembers in which layout convolutions got their input."""

    def __init__(self) -> None:
        super().__init__()
        self.last: list[bool] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operator."""
        if func.overloadpacket.__name__ == "convolution":
            self.last.append(args[0].is_contiguous(memory_format=torch.channels_last))
        return func(*args, **(kwargs or {}))


def tail(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A view that contiguous results alone have."""
    return torch.nn.functional.conv2d(x, weight).view(x.shape[0], -1).softmax(-1)


def test_convolutions_get_their_channels_last_and_return_what_they_would() -> None:
    """The values are those of the other layout, and what comes behind sees no other strides."""
    x, weight = torch.randn(2, 16, 7, 9), torch.randn(8, 16, 3, 3)
    with Watch() as watch, ChannelsLast():
        found = tail(x, weight)
    assert watch.last == [True]
    torch.testing.assert_close(found, tail(x, weight))


def test_what_has_no_such_layout_is_called_as_it_is() -> None:
    """Signals have one layout, and matrices no convolution."""
    x, weight = torch.randn(2, 4, 9), torch.randn(3, 4, 3)
    with ChannelsLast():
        found = torch.nn.functional.conv1d(x, weight)
    torch.testing.assert_close(found, torch.nn.functional.conv1d(x, weight))
    assert len(list(layouts([x, None]))) == 1
    assert len(list(layouts([None, torch.zeros(1, 1, 1, 1)]))) == 2
