"""A part of a model's code as a Python file, from which a project can be created.

Owns: its text. Never: decides which parts are written.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.fx.node import map_arg

if TYPE_CHECKING:
    from parts import Part

#: What the text of a graph may call beside PyTorch, and where it is.
KNOWN = {"inf": "from math import inf", "nan": "from math import nan", "device": "from torch import device"}


def text(part: Part, name: str, about: str) -> str | None:
    """The file of a part: a function of its tensors, and tensors to call it with. None if it needs something else."""
    if part.tensors is None or any(not dtype.is_floating_point for _, dtype in part.tensors):
        return None
    code = part.graph.python_code("self")
    used = set(re.findall(r"\b\w+\b", code.src))
    imports = ["import torch"]
    for known in sorted(code.globals):
        if known in used and known != "torch":
            if known not in KNOWN:
                return None
            imports.append(KNOWN[known])
    names = [node.name for node in part.graph.nodes if node.op == "placeholder"]
    turned = [name for name, (shape, _) in zip(names, part.tensors, strict=True) if part.swapped and len(shape) == 4]
    body = "\n".join([*(f"    {one} = {one}.transpose(1, 2)" for one in turned), *lines(code.src, part)])
    dtypes = [dtype for _, dtype in part.tensors]
    said = [f", dtype={dtype}" if len(set(dtypes)) > 1 else "" for dtype in dtypes]
    shapes = [", ".join(map(str, shape)) for shape in example_shapes(part)]
    tensors = [f"        torch.randn({shape}{dtype})," for shape, dtype in zip(shapes, said, strict=True)]
    return "\n".join(
        [
            f'"""{about}"""',
            "",
            *imports,
            "",
            "",
            f"def {name}({', '.join(names)}):",
            body,
            "",
            "",
            "def example_inputs():",
            "    return (",
            *tensors,
            "    )",
            "",
        ]
    )


def lines(source: str, part: Part) -> Iterator[str]:
    """The lines of a graph's function, without those that delete names. Results are turned as they lie in memory."""
    inside = False
    for line in source.splitlines():
        if line.startswith("def "):
            inside = True
        elif inside and line.strip():
            plain = re.sub(r";  (\w+ = )+None$", "", line.strip())
            if plain.startswith("return ") and any(part.results):
                found = re.findall(r"\w+", plain.removeprefix("return "))
                turned = [
                    f"{one}.transpose(1, 2)" if is_swapped else one
                    for one, is_swapped in zip(found, part.results, strict=True)
                ]
                plain = f"return {', '.join(turned)}"
            yield textwrap.indent(plain, "    ")


def example_shapes(part: Part) -> list[list[int]]:
    """The shapes of a call. Where all tensors of most axes have one sequence, two, so that their number is no constant."""
    shapes: list[list[int]] = [list(shape) for shape, _ in part.tensors or []]
    if part.swapped:
        shapes = [[one[0], one[2], one[1], one[3]] if len(one) == 4 else one for one in shapes]
    most = max((len(shape) for shape in shapes), default=0)
    whole = [shape for shape in shapes if len(shape) == most > 1]
    if whole and all(shape[0] == 1 for shape in whole):
        for shape in shapes:
            if len(shape) > 1 and shape[0] == 1:
                shape[0] = 2
    return shapes


def own_name(name: str, taken: set[str]) -> str:
    """A name that no other part has."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found


def described(parts: list[Part]) -> str:
    """Where parts stand: `2 of Qwen3MLP`."""
    where: dict[str, int] = {}
    for part in parts:
        for kind, count in part.classes.items():
            where[kind] = where.get(kind, 0) + count
    return ", ".join(f"{count} of {kind}" for kind, count in where.items())


def alike(part: Part) -> str:
    """A text that parts which compute the same of tensors of the same kinds have in common."""
    names: dict[Any, str] = {}
    placeholders = [node for node in part.graph.nodes if node.op == "placeholder"]
    tensors = part.tensors or []
    shapes = [[length if length == 1 else None for length in shape] for shape, _ in tensors]
    kinds = {
        node: f"{shape} {dtype}" for node, shape, (_, dtype) in zip(placeholders, shapes, tensors, strict=bool(tensors))
    }
    found: list[str] = []
    for node in part.graph.nodes:
        if node.op == "placeholder":
            continue
        target: Any = node.target
        name: str = getattr(target, "__name__", target)
        given: Any = node.args
        if name in ("add", "mul"):
            given = tuple(sorted(given, key=lambda one: kinds.get(one, "")))
        firsts = [one for one in given if one in node.all_input_nodes]
        for one in [*firsts, *node.all_input_nodes]:
            if one in kinds and one not in names:
                names[one] = f"{kinds[one]} {len(names)}"
        names[node] = str(len(names))
        arguments: Any = map_arg((given, node.kwargs), lambda one: Named(names.get(one, one.name)))
        found.append(f"{name} {arguments}")
    return "\n".join(found)


class Named(str):
    """The name of a step in a text, without quotes."""

    __slots__ = ()

    __repr__ = str.__str__
