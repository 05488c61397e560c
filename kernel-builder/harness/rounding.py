"""Arithmetic in float64 whose every result is off by a random rounding of a coarser dtype (Monte Carlo arithmetic).

Owns: which operators round. Never: decides what an error is measured for.

Values near by have the roundings of float32 only if they reach other floating-point numbers. What a normalisation of two
elements returns does not: it is next to 1 whatever they are, so its rounding is the same for all of them. Random roundings
need no such luck (Parker, Monte Carlo Arithmetic, UCLA report CSD-970002, 1997).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import torch
from torch.utils._pytree import tree_map

from modes import Mode

# Operators that hand on elements as they are. Those that return views or write in place are known by their schema.
EXACT = frozenset(
    {
        "_to_copy",
        "abs",
        "amax",
        "amin",
        "cat",
        "clone",
        "clamp",
        "constant_pad_nd",
        "flip",
        "gather",
        "index",
        "index_select",
        "max",
        "maximum",
        "min",
        "minimum",
        "neg",
        "relu",
        "roll",
        "sign",
        "sort",
        "stack",
        "topk",
        "tril",
        "triu",
        "where",
    }
)
# Half the distance from 1 to the next number of float32.
ROUNDOFF = 2.0**-24
# Elements that are rounded at a time.
PIECE = 1 << 19


@cache
def factors(device: str, roundoff: float) -> torch.Tensor:
    """Numbers 1 + r, |r| <= `roundoff`, twice as many as a piece has. To draw them for every result takes six times as long."""
    random = torch.Generator(device).manual_seed(1)
    drawn = torch.rand(2 * PIECE, generator=random, dtype=torch.float64, device=device)
    return drawn.mul_(2).sub_(1).mul_(roundoff).add_(1)


class RandomRounding(Mode):
    """Multiplies what an operator returns in float64 by 1 + r, |r| <= `roundoff`, each element by another one."""

    def __init__(self, random: torch.Generator, roundoff: float = ROUNDOFF) -> None:
        super().__init__()
        self.roundoff = roundoff
        # The place from which factors are taken is drawn for each piece.
        self.places = Random(int(torch.randint(1 << 62, (), generator=random, device=random.device)))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operator and round."""
        name = func.overloadpacket.__name__
        if name == "convolution" and args[2] is not None:
            # On a GPU, PyTorch rounds a convolution, and then its sum with the bias.
            product = self.rounded(func(*args[:2], None, *args[3:], **(kwargs or {})))
            return self.rounded(product.add_(args[2].view(-1, *(1 for _ in product.shape[2:]))))
        found: Any = func(*args, **(kwargs or {}))
        if name in EXACT or any(one.alias_info is not None for one in func._schema.returns):
            return found
        rounded: Callable[[Any], Any] = self.rounded
        return tree_map(rounded, found)

    def rounded(self, value: Any) -> Any:
        """The value, rounded if it is a tensor of float64."""
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            return value
        known = factors(str(value.device), self.roundoff)
        pieces: list[torch.Tensor] = []
        for begin in range(0, value.numel(), PIECE):
            place = self.places.randrange(PIECE)
            pieces.append(known[place : place + min(PIECE, value.numel() - begin)])
        if not pieces:
            return value
        if not value.is_contiguous():
            return value.mul_(torch.cat(pieces).view(value.shape))
        flat: Any = value.view(-1)
        for part, factor in zip(flat.split(PIECE), pieces):
            part.mul_(factor)
        return value
