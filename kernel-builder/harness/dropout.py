"""Dropout whose masks follow from a seed, so that a kernel and a reference drop the same elements.

Owns: the random numbers, the operator that stands for a mask in a graph, the text of a reference. Never: decides what can be
translated.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from bounds import first_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

IMPORTS = """from typing import Any  # noqa: E402

import torch  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
"""
# The operator of a graph.
SCHEMA = "(Tensor seed, SymInt[] shape, int stream, float p) -> Tensor"


def _philox(counter: list[torch.Tensor], key: list[torch.Tensor]) -> list[torch.Tensor]:
    """Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). Words of 32 bits, in int64."""
    low = 0xFFFFFFFF
    for _ in range(10):
        # A product of two words may wrap around in int64, which has all of its 64 bits. Its upper half is not cleared here:
        # only words that are multiplied next must be below 2**32. The rest is in place, since fresh memory is slow.
        one, two = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            (two >> 32).bitwise_xor_(counter[1]).bitwise_xor_(key[0]).bitwise_and_(low),
            two,
            (one >> 32).bitwise_xor_(counter[3]).bitwise_xor_(key[1]).bitwise_and_(low),
            one,
        ]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return [word & low for word in counter]


def _kept(seed: torch.Tensor, shape: torch.Size, stream: int, p: float) -> torch.Tensor:
    """Whether dropout keeps each element: if the random number of its place, below 2**32, is at least p * 2**32."""
    low = 0xFFFFFFFF
    places = torch.arange(shape.numel(), device=seed.device)
    zeros = torch.zeros_like(places)
    words = _philox([places & low, places >> 32, zeros + stream, zeros], [seed & low, seed >> 32 & low])
    return (words[0] >= int(p * 2**32)).view(shape)


class _Dropout(TorchFunctionMode):
    """Takes the masks of dropout from a seed. The dropouts of a call are numbered: each has a stream of its own."""

    def __init__(self, seed: torch.Tensor, kept: Any = None) -> None:
        super().__init__()
        # `_kept` of the module at this time: the judge replaces it by one that computes each mask once.
        self.seed, self.kept, self.streams = seed, kept or _kept, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in (torch.nn.functional.dropout, torch.dropout, torch.dropout_):
            return func(*args, **(kwargs or {}))
        call: dict[str, Any] = {**dict(zip(("input", "p", "training", "inplace"), args)), **(kwargs or {})}
        x, p, training = call["input"], call.get("p", 0.5), call.get("training", call.get("train", True))
        if not training or not 0 < p <= 1:
            return func(*args, **(kwargs or {}))
        kept = self.kept(self.seed, x.shape, self.streams, p)
        self.streams += 1
        scale = 1 / (1 - p) if p < 1 else 0.0
        if func is torch.dropout_ or call.get("inplace", False):
            return x.mul_(kept).mul_(scale)
        return x * kept * scale


@torch.library.custom_op("kernelwright::kept", mutates_args=(), schema=SCHEMA)
def kept_in_graph(seed: Tensor, shape: list[int], stream: int, p: float) -> Tensor:
    """`_kept` as one operator."""
    return _kept(seed, torch.Size(shape), stream, p)


@kept_in_graph.register_fake
def _(seed: Tensor, shape: list[int], stream: int, p: float) -> Tensor:
    return seed.new_empty(shape, dtype=torch.bool)


class Seeded(torch.nn.Module):
    """A function with its seed as a last argument."""

    def __init__(self, called: Callable[..., Any]) -> None:
        super().__init__()
        # A list, so that the function is no part of this module.
        self.called = [called]

    def forward(self, *tensors: Tensor) -> Any:
        with _Dropout(tensors[-1], kept_in_graph):
            return self.called[0](*tensors[:-1])


def draws(called: Callable[..., Any], tensors: list[Tensor]) -> bool:
    """Whether a call that is about to be exported has dropout that takes a mask; see `first_call`."""
    mode = _Dropout(torch.zeros(1, dtype=torch.int64))

    def seeded(*tensors: Tensor) -> Any:
        with mode:
            return called(*tensors)

    first_call(seeded, tensors)
    return mode.streams > 0


def text() -> str:
    """`_Dropout` for a reference, which needs `IMPORTS`."""
    return "".join(f"\n\n{inspect.getsource(one)}" for one in (_philox, _kept, _Dropout))
