"""Operators whose formula in PyTorch loses small results in float64, computed without that loss.

Owns: these operators. Never: decides what a result is compared with.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from modes import Mode


class Exactly(Mode):
    """Computes GELU of float64 tensors by the complementary error function.

    PyTorch computes `x * (1 + erf(x / sqrt(2))) / 2`. The sum is off by up to 1e-16, and zero below about -8.3. A kernel with
    `erfc` has the digits of a result that small, in float32 too.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operator."""
        given = kwargs or {}
        is_gelu = func is torch.ops.aten.gelu.default and given.get("approximate", "none") == "none"
        if is_gelu and args[0].dtype == torch.float64:
            x: torch.Tensor = args[0]
            return x * torch.erfc(x * -math.sqrt(0.5)) * 0.5
        return func(*args, **given)
