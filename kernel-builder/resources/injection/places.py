"""Where a module keeps its code, and how that is replaced so that it can be restored."""

import types
from collections.abc import Callable
from dataclasses import dataclass

import torch

#: What a module keeps: what stood in the place of each replacement, the first one first.
_KEPT = "_before_inject"


@dataclass
class Part:
    """A replaced part of some code."""

    #: What the code calls now, and what it did itself.
    replacement: Callable
    own: Callable


def place_of(module: torch.nn.Module) -> str:
    """Where the code of a module is: accelerate's hooks keep it beside their own `forward`."""
    return "_old_forward" if hasattr(module, "_hf_hook") and "_old_forward" in vars(module) else "forward"


def current(module: torch.nn.Module) -> types.FunctionType | None:
    """The function that a module calls as `forward`; None where that is no Python function."""
    found = vars(module).get(place_of(module))
    found = type(module).forward if found is None else getattr(found, "__func__", found)
    return found if isinstance(found, types.FunctionType) else None


def depth(module: torch.nn.Module) -> int:
    """How many replacements a module has."""
    return len(vars(module).get(_KEPT, ()))


def before(module: torch.nn.Module, level: int):
    """The function that the replacement of this level replaced; None if it was the `forward` of the class."""
    return vars(module)[_KEPT][level]


def put(module: torch.nn.Module, forward: types.FunctionType, name: str) -> int:
    """Makes a module call `forward`, for the operation of this name; returns the level of that replacement."""
    place = place_of(module)
    kept = vars(module).setdefault(_KEPT, [])
    kept.append(vars(module).get(place))
    forward.injected = name
    vars(module)[place] = types.MethodType(forward, module)
    return len(kept) - 1


def take(module: torch.nn.Module) -> None:
    """Takes the last replacement of a module away."""
    place, kept = place_of(module), vars(module)[_KEPT]
    found = kept.pop()
    if found is None:
        vars(module).pop(place, None)
    else:
        vars(module)[place] = found
    if not kept:
        del vars(module)[_KEPT]


def decorated(forward: types.FunctionType, inner: types.FunctionType) -> types.FunctionType | None:
    """A copy of `forward` with `inner` in the place of the function within its decorators; None if that is not found.

    A decorator keeps the function that it decorates in a cell of its closure.
    """
    wrapped = getattr(forward, "__wrapped__", None)
    if wrapped is None:
        return inner
    changed = decorated(wrapped, inner)
    cells = forward.__closure__ or ()
    is_there = [_content(cell) is wrapped for cell in cells]
    if changed is None or sum(is_there) != 1:
        return None
    closure = tuple(types.CellType(changed) if there else cell for there, cell in zip(is_there, cells, strict=True))
    found = types.FunctionType(forward.__code__, forward.__globals__, forward.__name__, forward.__defaults__, closure)
    found.__kwdefaults__ = forward.__kwdefaults__
    vars(found).update(vars(forward))
    found.__wrapped__ = changed
    return found


def with_names(function: types.FunctionType, meant: dict[str, object]) -> types.FunctionType:
    """A copy of a function in which some global names mean something else."""
    # Without `__name__`: torch.compile would look these names up in the module of that name.
    names = {name: value for name, value in function.__globals__.items() if name != "__name__"} | meant
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__, copy.__qualname__ = function.__kwdefaults__, function.__qualname__
    copy.__module__ = function.__module__
    return copy


def _content(cell) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # A cell that is not filled yet.
        return None
