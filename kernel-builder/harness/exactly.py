"""Operators whose formula in PyTorch loses small results in float64, computed without that loss.

Owns: these operators. Never: decides what a result is compared with.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from modes import Mode

# The approximation of GELU takes the tanh of sqrt(2 / pi) (x + 0.044715 x^3).
TWICE_FACTOR = 2 * math.sqrt(2 / math.pi)
CUBED = 0.044715


def normal_share(x: torch.Tensor) -> torch.Tensor:
    """The normal distribution's share below x."""
    return torch.erfc(x * -math.sqrt(0.5)) * 0.5


def gelu(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """GELU of float64 elements. `(1 + tanh(z)) / 2` is `sigmoid(2 z)`, in which nothing cancels."""
    return x * (normal_share(x) if approximate == "none" else torch.sigmoid(twice_inner(x)))


def gelu_slope(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """The derivative of `gelu`."""
    if approximate == "none":
        return normal_share(x) + x * (x.square() * -0.5).exp() / math.sqrt(2 * math.pi)
    twice = twice_inner(x)
    share = torch.sigmoid(twice)
    return share + x * share * torch.sigmoid(-twice) * (TWICE_FACTOR * (1 + 3 * CUBED * x.square()))


def twice_inner(x: torch.Tensor) -> torch.Tensor:
    """Twice the argument of the approximation's tanh."""
    return TWICE_FACTOR * (x + CUBED * x.pow(3))


class Exactly(Mode):
    """Computes GELU of float64 tensors, and its gradient, so that small results have their digits.

    PyTorch computes `x * (1 + erf(x / sqrt(2))) / 2`, or the same with tanh. The sum is off by up to 1e-16, and zero below
    about -8.3 (by tanh, -6.3). A kernel with `erfc` or a logistic function has the digits of a result that small, in float32
    too.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operator."""
        given = kwargs or {}
        approximate = given.get("approximate", "none")
        if func is torch.ops.aten.gelu.default and args[0].dtype == torch.float64:
            return gelu(args[0], approximate)
        if func is torch.ops.aten.gelu_backward.default and args[1].dtype == torch.float64:
            return args[0] * gelu_slope(args[1], approximate)
        return func(*args, **given)
