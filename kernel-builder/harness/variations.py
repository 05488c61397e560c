"""Other values of a parameter, by which its effect is seen.

Owns: the values for each type, what code reads. Never: calls a function.
"""

from __future__ import annotations

import dis
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from torch import Tensor

# Options that functions of torch take.
WORDS = ("none", "tanh", "mean", "sum", "max", "silu", "swish", "gelu", "relu", "sigmoid")
# How many of them are tried for a parameter that is not known to be a word.
FEW_WORDS = 4


def reads(codes: list[CodeType], name: str) -> bool:
    """Whether code reads a variable; True where the code is not known."""
    if not codes:
        return True
    for code in codes:
        if name in code.co_cellvars or name in code.co_freevars:
            return True
        for step in dis.get_instructions(code):
            if not step.opname.startswith("LOAD_"):
                continue
            values = cast("tuple[Any, ...]", step.argval) if isinstance(step.argval, tuple) else (step.argval,)
            if name in values and not step.opname.startswith("LOAD_CONST"):
                return True
    return False


def is_known(torch: ModuleType, value: Any) -> bool:
    """Whether `others` knows values of the type of this one."""
    types = (torch.Tensor, bool, int, float, str, torch.dtype)
    return isinstance(value, types) or type(value) in (tuple, list, torch.Size) or callable(value)


def others(torch: ModuleType, words: list[str], value: Any, tensors: list[Tensor]) -> list[Any]:
    """Values besides the one that a parameter has; `words` are those of the function's code."""
    first = tensors[0]
    found: list[Any]
    if value is None:
        return for_none(torch, words, tensors)
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.bool:
            return [value.logical_not()]
        found = [value * 1.3 + 0.2] if value.is_floating_point() else [value + 1]
        return found + ([value.flip(0)] if value.dim() and value.shape[0] > 1 else [])
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        found = [value + 1, value - 1, 2 * value, 0, 1, 2, -1, -2, float(value) + 0.5]
    elif isinstance(value, float):
        found = [2 * value, value + 1, value / 2, -value, 0.0, 1.0, 0.37]
    elif isinstance(value, str):
        found = list(dict.fromkeys([*words, *WORDS]))
    elif isinstance(value, torch.dtype):
        found = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
    elif type(value) in (tuple, list, torch.Size):
        kind = list if type(value) is list else tuple
        held = cast("list[Any]", value)
        found = [kind(), kind(reversed(held))]
        if all(type(one) in (int, float) for one in held):
            found += [kind(one + 1 for one in held), kind(first.shape[-2:]), kind(first.shape), kind([1])]
    elif callable(value):
        return [torch.tanh, torch.sigmoid, first_of]
    else:
        # Code that does not use it takes anything.
        return [None, object()]
    kept: list[Any] = []
    for one in found:
        if (type(one), one) not in [(type(other), other) for other in kept] and one != value:
            kept.append(one)
    return kept


def first_of(*arguments: Any, **_named: Any) -> Any:
    """A function that any call can be given."""
    return arguments[0]


def for_none(torch: ModuleType, words: list[str], tensors: list[Tensor]) -> list[Any]:
    """Values to try for a parameter that is None: tensors of the known shapes, numbers, strings."""
    first = tensors[0]
    shapes = list(
        dict.fromkeys([tuple(one.shape) for one in tensors] + [tuple(first.shape[-1:]), tuple(first.shape[:1]), (1,)])
    )
    random = torch.Generator().manual_seed(5)
    found = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes]
    found += [torch.rand(shape, generator=random) < 0.5 for shape in shapes]
    found += [torch.zeros(first.shape[:1], dtype=torch.int64)]
    return [*found, 0.5, 2, True, torch.float32, torch.bfloat16, *dict.fromkeys([*words, *WORDS[:FEW_WORDS]])]
