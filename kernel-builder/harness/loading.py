"""Loads a person's file and finds the function or module that is meant.

Owns: the import, why it fails and where. Never: calls what it finds.
"""

import importlib.util
import inspect
import os
import sys
import traceback
from types import ModuleType
from typing import Any

# Optional functions of the user's file begin with these words.
HELPERS = ("example_inputs", "example_module")


class Unusable(Exception):  # noqa: N818, it says what a file is
    """Why the file cannot be traced; the words are for people.

    `kind` is `other`, `syntax`, `module`, `fails`, `ambiguous` or `unknown`, and `facts` are what an error of this kind shows.
    """

    def __init__(self, reason: str, kind: str = "other", **facts: Any) -> None:
        super().__init__(reason)
        self.kind = kind
        self.facts: dict[str, Any] = facts

    def report(self) -> dict[str, Any]:
        """The report of a file that cannot be used."""
        return {"unusable": {"kind": self.kind, "reason": str(self), **self.facts}}


def load(path: str) -> ModuleType:
    """The person's module; its folder is importable, as it is for a script."""
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("from_reference", path)
    if spec is None or spec.loader is None:
        raise Unusable("it is not a Python file: its name does not end with `.py`")
    module = importlib.util.module_from_spec(spec)
    sys.modules["from_reference"] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as problem:
        text = (problem.text or "").rstrip("\n")
        raise Unusable(
            problem.msg,
            "syntax",
            place=[problem.filename or path, problem.lineno or 1, problem.offset],
            text=text,
            python=f"Python {sys.version.split()[0]} ({sys.executable})",
        ) from problem
    except ImportError as problem:
        kind = "module" if isinstance(problem, ModuleNotFoundError) and problem.name else "fails"
        raise failure(problem, kind, path, module=problem.name) from problem
    except (Exception, SystemExit) as problem:
        raise failure(problem, "fails", path) from problem
    return module


def failure(problem: BaseException, kind: str, path: str, **facts: Any) -> Unusable:
    """The error, and the last line of the user's own files that was running."""
    frames = traceback.extract_tb(problem.__traceback__)
    folder = os.path.dirname(path) + os.sep
    own = [frame for frame in frames if frame.filename.startswith(folder)]
    of_file = [frame for frame in frames if frame.filename == path]
    last = (own or of_file or frames)[-1]
    reason = f"{type(problem).__name__}: {problem}"[:600]
    return Unusable(
        reason,
        kind,
        place=[last.filename, last.lineno, None],
        text=(last.line or "").strip(),
        python=sys.executable,
        **facts,
    )


def own_names(module: ModuleType) -> list[tuple[str, int]]:
    """The functions and modules that the file defines, each with its line."""
    import torch

    found: list[tuple[str, int]] = []
    for key, value in vars(module).items():
        is_ours = getattr(value, "__module__", None) == module.__name__
        is_kind = inspect.isfunction(value) or (inspect.isclass(value) and issubclass(value, torch.nn.Module))
        if is_ours and is_kind and not key.startswith(HELPERS):
            found.append((key, line_of(value)))
    return found


def line_of(value: Any) -> int:
    """The line of a definition; 1 where Python does not know it."""
    try:
        return inspect.getsourcelines(inspect.unwrap(value) if inspect.isfunction(value) else value)[1]
    except (OSError, TypeError):
        return 1


def chosen(module: ModuleType, name: str | None) -> tuple[str, Any]:
    """The function or class that is meant: the one that is named, else the only public one that the file defines."""
    own = own_names(module)
    if name is not None:
        found = getattr(module, name, None)
        if found is None:
            raise Unusable(f"it does not define `{name}`", "unknown", names=own, name=name)
        import torch

        is_module = inspect.isclass(found) and issubclass(found, torch.nn.Module)
        if not callable(found) or (inspect.isclass(found) and not is_module):
            what = (
                "a class that is no torch.nn.Module"
                if inspect.isclass(found)
                else f"a value of type {type(found).__name__}"
            )
            raise Unusable(f"`{name}` is {what}, not a function", "unknown", names=own, name=name)
        return name, found
    public = [(key, line) for key, line in own if not key.startswith("_")]
    if len(public) == 1:
        return public[0][0], getattr(module, public[0][0])
    if public:
        raise Unusable("it defines several functions", "ambiguous", names=public)
    raise Unusable("it defines no function and no torch.nn.Module", "unknown", names=own, name=None)
