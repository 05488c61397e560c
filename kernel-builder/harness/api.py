"""What Python packages offer, read by `ast`: nothing of them is imported or run.

Reads a JSON list of package folders from standard input, a line; writes one JSON object a line, in their order:
`names`, each with `kind` (`function`, `class`, `value`, `module`) and `calls` (parameters by name of the callable),
and `listed`: whether `__all__` says them, or they are what the module defines without an underscore.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

# Any Python of a user runs this: what only checkers read may be newer than Python 3.8.
if TYPE_CHECKING:
    from collections.abc import Iterator

    # Its name, how it is passed, and whether it must be.
    Parameter = tuple[str, str, bool]
    # Parameters by the name of what is called; the empty name is the thing itself.
    Calls = dict[str, list[Parameter]]
    Definitions = dict[str, "Definition"]


class Offered(TypedDict):
    """A name that a package offers, as it is written."""

    kind: str
    calls: Calls


class Package(TypedDict):
    """The answer for one package."""

    names: dict[str, Offered]
    listed: bool
    read: bool


@dataclass
class Definition:
    """What a name of a module stands for."""

    kind: str
    calls: Calls = field(default_factory=dict)
    imported: bool = False


def parsed(path: str) -> ast.Module | None:
    try:
        with open(path, "rb") as file:
            return ast.parse(file.read(), path)
    except (OSError, SyntaxError, ValueError):
        return None


def module(folder: str, name: str) -> str | None:
    """The file of a module below a package, or None."""
    base = os.path.join(folder, *name.split(".")) if name else folder
    for path in (base + ".py", os.path.join(base, "__init__.py")):
        if os.path.isfile(path):
            return path
    return None


def strings(node: ast.expr | None) -> list[str] | None:
    """The texts of a literal list, or of a sum of such; None where it is computed."""
    if isinstance(node, (ast.List, ast.Tuple)):
        texts = [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        return texts if len(texts) == len(node.elts) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = strings(node.left), strings(node.right)
        return None if left is None or right is None else left + right
    return None


def listed(tree: ast.Module) -> list[str] | None:
    """`__all__`, or None."""
    found: list[str] | None = None
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            texts = strings(node.value)
            if texts is not None:
                found = (found or []) + texts if isinstance(node, ast.AugAssign) else texts
    return found


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, bound: bool) -> list[Parameter]:
    given = function.args
    positional = given.posonlyargs + given.args
    required = len(positional) - len(given.defaults)
    rows: list[Parameter] = []
    for place, one in enumerate(positional):
        kind = "place" if place < len(given.posonlyargs) else "any"
        rows.append((one.arg, kind, place < required))
    if bound and rows:
        rows = rows[1:]
    if given.vararg:
        rows.append((given.vararg.arg, "places", False))
    for one, default in zip(given.kwonlyargs, given.kw_defaults):
        rows.append((one.arg, "name", default is None))
    if given.kwarg:
        rows.append((given.kwarg.arg, "names", False))
    return rows


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def class_definition(node: ast.ClassDef) -> Definition:
    calls: Calls = {}
    for inner in node.body:
        if isinstance(inner, FUNCTIONS) and (inner.name == "__init__" or not inner.name.startswith("_")):
            names = {item.id for item in inner.decorator_list if isinstance(item, ast.Name)}
            calls[inner.name] = parameters(inner, "staticmethod" not in names)
    return Definition("class", calls)


def top(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module, also those in `if`, `try` and `with`."""
    for node in tree.body:
        yield node
        for part in ("body", "orelse", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.With)):
                yield from top(ast.Module(body=getattr(node, part, []), type_ignores=[]))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from top(ast.Module(body=handler.body, type_ignores=[]))


def definitions(folder: str, name: str, known: dict[str, Definitions]) -> Definitions:
    """What a module of the package defines, by name; `known` has the modules that were read, and those that are being."""
    if name in known:
        return known[name]
    path = module(folder, name)
    tree = parsed(path) if path else None
    # A module that is imported by what it imports is seen as far as it was read.
    found: Definitions = {}
    known[name] = found
    if path is None or tree is None:
        return found
    inside = name if path.endswith("__init__.py") else name.rpartition(".")[0]
    for node in top(tree):
        if isinstance(node, FUNCTIONS):
            found[node.name] = Definition("function", {"": parameters(node, False)})
        elif isinstance(node, ast.ClassDef):
            found[node.name] = class_definition(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for inner in ast.walk(target):
                    if isinstance(inner, ast.Name):
                        same = found.get(node.value.id) if isinstance(node.value, ast.Name) else None
                        found[inner.id] = same or Definition("value")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found[(alias.asname or alias.name).split(".")[0]] = Definition("module", imported=True)
        elif isinstance(node, ast.ImportFrom):
            imported(folder, inside, node, found, known)
    return found


def imported(folder: str, inside: str, node: ast.ImportFrom, found: Definitions, known: dict[str, Definitions]) -> None:
    if node.level == 0:
        for alias in node.names:
            found[alias.asname or alias.name] = Definition("value", imported=True)
        return
    parts = inside.split(".") if inside else []
    parts = parts[: len(parts) - (node.level - 1)]
    source = ".".join(parts + ([node.module] if node.module else []))
    there = definitions(folder, source, known)
    for alias in node.names:
        if alias.name == "*":
            found.update({name: one for name, one in there.items() if not name.startswith("_")})
        elif alias.name in there:
            found[alias.asname or alias.name] = there[alias.name]
        elif module(folder, ".".join(filter(None, [source, alias.name]))):
            found[alias.asname or alias.name] = Definition("module")
        else:
            found[alias.asname or alias.name] = Definition("value")


def offered(folder: str) -> Package:
    tree = parsed(os.path.join(folder, "__init__.py"))
    if tree is None:
        return {"names": {}, "listed": False, "read": False}
    names, found = listed(tree), definitions(folder, "", {})
    if names is None:
        own = {name: one for name, one in found.items() if not name.startswith("_") and not one.imported}
    else:
        own = {name: found.get(name, Definition("value")) for name in names}
    clean: dict[str, Offered] = {name: {"kind": one.kind, "calls": one.calls} for name, one in own.items()}
    return {"names": clean, "listed": names is not None, "read": True}


def main() -> None:
    folders: list[str] = json.loads(sys.stdin.readline())
    for folder in folders:
        print(json.dumps(offered(folder), sort_keys=True), flush=True)


if __name__ == "__main__":
    main()
