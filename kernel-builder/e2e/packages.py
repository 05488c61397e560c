"""The packages that are put into a model, and taken out of it.

Owns: which modules change. Never: decides what a package may replace; its own `inject` does.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from said import refuse

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import ModuleType


def load(folder: str, number: int) -> ModuleType:
    """A package, imported by its file."""
    path, name = Path(folder), f"e2e_package_{number}"
    spec = importlib.util.spec_from_file_location(name, path / "__init__.py", submodule_search_locations=[str(path)])
    if spec is None or spec.loader is None or not (path / "__init__.py").exists():
        refuse(
            f"`{folder}` is not a package", "name a kernel project, or a folder with __init__.py, such as build/VARIANT"
        )
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return package


#: Why a package cannot be put into a model.
NO_INJECT = "it has no `inject`: some of its tensors are no floating-point numbers, or it writes to one"
#: What stands for an attribute that is not there.
ABSENT = object()


def own(module: Any) -> dict[str, Any]:
    """What a module keeps beside its parameters, buffers and submodules: its own code, and objects that it calls."""
    attributes: dict[str, Any] = module.__dict__
    return {name: value for name, value in attributes.items() if not name.startswith("_") or name == "_old_forward"}


def changes(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The attributes of `after` that are others than those of `before`, by the names of the modules."""
    found: dict[str, dict[str, Any]] = {}
    for name, values in after.items():
        known = before[name]
        changed = {key: value for key, value in values.items() if known.get(key, ABSENT) is not value}
        if changed:
            found[name] = changed
    return found


def alike(left: dict[str, str]) -> dict[str, list[str]]:
    """The modules that were left for each reason."""
    found: dict[str, list[str]] = {}
    for module, reason in left.items():
        found.setdefault(reason, []).append(module)
    return found


def summary(injection: Any) -> str:
    """Counts the replaced modules of each class, and the modules that were left for each reason."""
    replaced: Counter[str] = Counter(injection.replaced.values())
    words = [f"replaced {kind} ({count} times)" for kind, count in replaced.items()] or ["replaced nothing"]
    for reason, modules in alike(injection.left).items():
        others = f" and {len(modules) - 1} more" if len(modules) > 1 else ""
        words.append(f"left {modules[0]}{others}: {reason}")
    return "; ".join(words)


class Counted(TorchDispatchMode):
    """Counts the operators that compute something. Views do not."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operator."""
        if not any(one.alias_info is not None for one in func._schema.returns):
            self.calls += 1
        return func(*args, **(kwargs or {}))


def operators(package: ModuleType) -> int:
    """How many operators PyTorch needs for what the package computes; 0 where that is not known.

    Packages with more are put in first: a norm would otherwise replace its part of a sum with the norm after it, and what
    multiplies and adds a part of that norm.
    """

    def taken(operation: Any, model: Any) -> Any:
        return operation

    try:
        module = importlib.import_module(f"{package.__name__}._inject")
        with mock.patch.object(module, "inject", taken):
            operation: Any = package.inject(torch.nn.Module())
        lengths: dict[str, int] = dict(operation.fixed)
        leading = (2, 3) if operation.leading else ()
        generator = torch.Generator().manual_seed(0)
        given = [
            torch.randn(operation.shape(one.axes, leading, lengths), generator=generator, dtype=torch.float64)
            for one in operation.inputs
        ]
        with torch.no_grad(), Counted() as counted:
            operation.reference(*given, *[default for _, default in operation.scalars])
    except Exception:  # A package that somebody else made, or a reference that does not take these lengths.
        return 0
    return counted.calls


class Switch:
    """Puts packages into a model and takes them out, without comparing them with its modules again."""

    def __init__(self, model: Any, packages: dict[str, ModuleType]) -> None:
        self.model = model
        named: dict[str, Any] = dict(model.named_modules())
        plain = {name: own(module) for name, module in named.items()}
        #: The modules that were replaced as a whole, and the parts of the code of others.
        self.whole: set[str] = set()
        self.parts: list[Any] = []
        #: What each package replaced, and what it says of the modules of the model. None has no `inject`.
        self.injections: dict[str, Any] = {}
        self.report: dict[str, str] = {}
        for name, package in sorted(packages.items(), key=lambda one: -operators(one[1])):
            if hasattr(package, "inject"):
                injection = package.inject(model)
                self.injections[name], self.report[name] = injection, summary(injection)
                self.whole.update(injection.whole)
                self.parts += injection.parts
            else:
                self.injections[name], self.report[name] = None, NO_INJECT
        #: The attributes of the modules that changed, and what they were before.
        self.own = changes(plain, {name: own(module) for name, module in named.items()})
        self.before = {name: {key: plain[name].get(key, ABSENT) for key in keys} for name, keys in self.own.items()}
        self.put(on=False)

    def put(self, on: bool) -> None:
        """Makes the modules call the packages, or what they called before."""
        for name in self.own:
            self.set(name, (self.own if on else self.before)[name])

    def set(self, name: str, values: dict[str, Any]) -> None:
        """Sets attributes of a module, past what it does with new ones."""
        attributes: dict[str, Any] = self.model.get_submodule(name).__dict__
        for key, value in values.items():
            if value is ABSENT:
                attributes.pop(key, None)
            else:
                attributes[key] = value

    def watched(self, around: Callable[[], AbstractContextManager[Any]]) -> Watched:
        """The model with the code of its own in the place of the replaced parts, each within `around()`."""
        return Watched(self, around)


class Watched:
    """While it is entered, the replaced parts of a model run their own code within a context."""

    def __init__(self, switch: Switch, around: Callable[[], AbstractContextManager[Any]]) -> None:
        self.switch, self.around = switch, around
        #: The names of code, the one that was replaced, and what stands there otherwise.
        self.changed: list[tuple[dict[str, Any], str, Any]] = []

    def __enter__(self) -> None:
        self.switch.put(on=True)
        instead = {id(part.replacement): self.within(part.own) for part in self.switch.parts}
        for name, values in self.switch.own.items():
            if name in self.switch.whole:
                self.switch.set(name, self.switch.before[name])
                continue
            for value in values.values():
                code = value if inspect.ismethod(value) else type(value).__call__
                names: dict[str, Any] = inspect.unwrap(getattr(code, "__func__", code)).__globals__
                for key, called in list(names.items()):
                    if id(called) in instead:
                        self.changed.append((names, key, called))
                        names[key] = instead[id(called)]

    def __exit__(self, *error: object) -> None:
        for names, key, value in self.changed:
            names[key] = value
        self.switch.put(on=False)

    def within(self, own: Any) -> Any:
        """A function within the context."""

        def called(*arguments: Any, **keywords: Any) -> Any:
            with self.around():
                return own(*arguments, **keywords)

        return called
