"""How far off a package may be that calls PyTorch's operators: several times what PyTorch itself is off.

Owns: how many times. Never: runs an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# How many times PyTorch's own error a package may be off: times that of an element, and times the root mean square of a row, as
# of millions of elements some are further off than any that PyTorch's runs have.
ERRORS, MEANS = 4.0, 6.0
# With a single run of PyTorch: times its largest error of all.
ALONE = 2.0
# What is this much smaller than the largest result is left of terms that cancel in float64.
NOTHING = 2.0**-60


def explained(own: Tensor, exact: Tensor, tiny: float) -> Tensor:
    """The errors that are explained at `exact`, float64 of any shape, where PyTorch's are `own`, which is used up.

    `tiny` is the smallest number of the results' dtype. Rows lie along the last axis.
    """
    values = exact.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).abs_()
    rows = (-1,) if exact.dim() else ()
    share = (own.square().mean(rows, keepdim=True) / values.square().mean(rows, keepdim=True)).sqrt_()
    share = share.nan_to_num_(nan=0.0, posinf=0.0)
    least = tiny + NOTHING * float(values.max())
    return own.mul_(ERRORS).maximum((values * share).mul_(MEANS)).clamp_(min=least)


def loosely(own: Tensor) -> Tensor:
    """The errors that are explained where it is only asked whether a package still computes, float64 of any shape.

    PyTorch is as far off as `own`. One run of it shows less than several: an element may be exact by chance.
    """
    return own.mul(ERRORS).add_(ALONE * float(own.max()))
