"""Masks of dropout that a reference computes once for each seed.

Owns: which masks are kept, and for how long. Never: computes one; `_kept` of the reference does (see dropout.py).

The oracle calls a reference up to a hundred times with one seed, and a mask takes longer than most functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

# Seed, shape, number of the dropout and probability.
Kept = Callable[[torch.Tensor, torch.Size, int, float], torch.Tensor]


class Remembered:
    """`_kept` that computes a mask once. Each thread has the masks of its last seed, since it makes one set at a time."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.own: Any = threading.local()

    def __call__(self, seed: torch.Tensor, shape: torch.Size, stream: int, p: float) -> torch.Tensor:
        # By its value: a reference may pass a copy, or write to it.
        value: Any = seed
        known = (value.tolist(), seed.device)
        if getattr(self.own, "seed", None) != known:
            nothing: dict[tuple[torch.Size, int, float], torch.Tensor] = {}
            self.own.seed, self.own.masks = known, nothing
        masks = self.own.masks
        place = (shape, stream, p)
        if place not in masks:
            masks[place] = self.kept(seed, shape, stream, p)
        return masks[place]


def remember(reference: ModuleType) -> None:
    """Let a reference that has dropout compute each mask once."""
    if hasattr(reference, "_Dropout") and hasattr(reference, "_kept"):
        reference.__dict__["_kept"] = Remembered(reference.__dict__["_kept"])
