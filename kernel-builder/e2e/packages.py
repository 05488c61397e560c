"""The packages that are put into a model, and taken out of it.

Owns: which modules change. Never: decides what a package may replace; its own `inject` does.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from said import refuse

if TYPE_CHECKING:
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


def forwards(model: Any) -> dict[str, Any]:
    """The forward functions that modules have of their own, by the names of the modules."""
    modules: dict[str, Any] = dict(model.named_modules())
    return {name: vars(one).get("forward") for name, one in modules.items()}


def summary(injection: Any) -> str:
    """Counts the replaced modules of each class, and the modules that were left for each reason."""
    replaced: Counter[str] = Counter(injection.replaced.values())
    words = [f"replaced {count} {kind}" for kind, count in replaced.items()] or ["replaced nothing"]
    left: dict[str, list[str]] = {}
    for module, reason in injection.left.items():
        left.setdefault(reason, []).append(module)
    for reason, modules in left.items():
        others = f" and {len(modules) - 1} more" if len(modules) > 1 else ""
        words.append(f"left {modules[0]}{others}: {reason}")
    return "; ".join(words)


class Switch:
    """Puts packages into a model and takes them out, without comparing them with its modules again."""

    def __init__(self, model: Any, packages: dict[str, ModuleType]) -> None:
        self.model = model
        plain = forwards(model)
        #: What each package says of the modules of the model.
        self.report: dict[str, str] = {}
        for name, package in packages.items():
            if hasattr(package, "inject"):
                self.report[name] = summary(package.inject(model))
            else:
                self.report[name] = "it has no `inject`: no module of a model computes its operation alone"
        after = forwards(model)
        #: The forward functions of the modules that changed.
        self.own = {name: own for name, own in after.items() if own is not plain[name]}
        self.before = {name: plain[name] for name in self.own}
        self.put(on=False)

    def put(self, on: bool) -> None:
        """Makes the modules call the packages, or what they called before."""
        for name, forward in self.own.items():
            module, before = self.model.get_submodule(name), self.before[name]
            if on:
                module.forward = forward
            elif before is not None:
                module.forward = before
            else:
                vars(module).pop("forward", None)
