"""Puts an operation of this package in the place of code of a model that computes the same.

Three kinds of code are replaced: modules without submodules, parts of the code of a module, and functions that such code calls.
In each case the code and the operation's reference must agree in float64, on drawn tensors.
"""

import itertools
import types
from dataclasses import dataclass, field

import torch

from . import functions, modules, regions
from .operation import Input, Operation
from .places import Part, current, decorated, depth, put, take

__all__ = ["Injection", "Input", "Operation", "inject"]


@dataclass
class Injection:
    """The replacements in a model. As a context manager, it restores the model at the end."""

    #: Names of modules with what was replaced there: the class, or a part of it.
    replaced: dict[str, str] = field(default_factory=dict)
    #: Names of modules that look alike, with the reason why they were left as they are.
    left: dict[str, str] = field(default_factory=dict)
    #: The modules that were replaced as a whole.
    whole: list[str] = field(default_factory=list)
    #: The parts of code that were replaced.
    parts: list[Part] = field(default_factory=list)
    _changes: list[tuple[torch.nn.Module, int]] = field(default_factory=list)

    def undo(self) -> None:
        """Gives every module the code back that it had.

        Raises:
            RuntimeError: if another package has replaced code of the same modules since then; undo that first.
        """
        last = {id(module): level for module, level in self._changes}
        for module, _ in self._changes:
            if depth(module) != last[id(module)] + 1:
                name = getattr(current(module), "injected", "another operation")
                raise RuntimeError(f"{type(module).__name__} also calls {name}: undo that injection first")
        for module, _ in reversed(self._changes):
            take(module)
        self._changes.clear()

    def __enter__(self) -> "Injection":
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = [f"replaced {name} ({what})" for name, what in self.replaced.items()]
        lines += [f"left     {name}: {reason}" for name, reason in self.left.items()]
        return "\n".join(lines) or "nothing to replace"


def inject(operation: Operation, model: torch.nn.Module) -> Injection:
    """Replaces code of `model` that computes what `operation` does.

    Raises:
        TypeError: if `model` is no module.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"inject takes a torch.nn.Module, not {type(model).__name__}")
    injection = Injection()
    if modules.is_candidate(operation):
        _put_into_modules(operation, model, injection)
    _put_into_code(operation, model, injection)
    return injection


def _put_into_modules(operation: Operation, model: torch.nn.Module, injection: Injection) -> None:
    known: dict[tuple, modules.Verdict] = {}
    for name, module in model.named_modules():
        key = modules.kind(module)
        if key is None:
            continue
        if key not in known:
            known[key] = modules.verdict(operation, module)
        verdict = known[key]
        if depth(module) and (verdict.bound is not None or verdict.reason):
            injection.left[name] = f"it is replaced by {current(module).injected} already"
        elif verdict.bound is not None:
            forward = modules.replacement(operation, module, verdict)
            injection._changes.append((module, put(module, forward, operation.name)))
            injection.replaced[name] = type(module).__name__
            injection.whole.append(name)
        elif verdict.reason:
            injection.left[name] = verdict.reason


@dataclass(frozen=True)
class _Changed:
    """The code of a kind of module, changed."""

    forward: types.FunctionType
    what: str
    parts: list[Part]


def _put_into_code(operation: Operation, model: torch.nn.Module, injection: Injection) -> None:
    named = list(model.named_modules())
    done = {module for _, module in named if getattr(current(module), "injected", None) == operation.name}
    known: dict[tuple, _Changed | None] = {}
    traced: dict[tuple, regions.Region | None] = {}
    # Submodules first.
    for name, module in reversed(named):
        if module in done or isinstance(module, torch.jit.ScriptModule) or current(module) is None:
            continue
        key = (current(module), _family(module, done))
        if key not in known:
            known[key] = _changed(operation, module, done, traced)
            if known[key] is not None:
                injection.parts += [one for one in known[key].parts if one not in injection.parts]
        changed = known[key]
        if changed is not None:
            injection._changes.append((module, put(module, changed.forward, operation.name)))
            injection.replaced[name] = changed.what
            injection.left.pop(name, None)
            done.add(module)


#: Submodules of a module whose parts are remembered for others like it.
_MOST_SUBMODULES = 100


def _family(module: torch.nn.Module, done: set[torch.nn.Module]) -> tuple:
    """A key: modules with the same one and the same code have the same parts."""
    named = list(itertools.islice(module.named_modules(), _MOST_SUBMODULES + 1))
    if len(named) > _MOST_SUBMODULES:
        return (id(module),)
    return tuple((name, one in done, depth(one), modules.has_hooks(one), modules.described(one)) for name, one in named)


def _changed(
    operation: Operation,
    module: torch.nn.Module,
    done: set[torch.nn.Module],
    traced: dict[tuple, regions.Region | None],
) -> _Changed | None:
    """The code of a module with parts and functions replaced; None without any."""
    forward = current(module)
    assert forward is not None
    inner = forward
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    if not isinstance(inner, types.FunctionType):
        return None
    found, called = functions.with_functions(operation, inner)
    parts, what = list(called.values()), [f"{name} in {type(module).__name__}" for name in called]
    has_children = next(module.children(), None) is not None
    region = regions.region(operation, module, found, done, traced) if has_children else None
    if region is not None:
        found, parts = region.forward, [*parts, *region.parts]
        what.append(f"part of {type(module).__name__}")
    if not parts:
        return None
    outer = decorated(forward, found)
    return None if outer is None else _Changed(outer, ", ".join(what), parts)
