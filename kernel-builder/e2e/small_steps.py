"""Steps of a part that compute small tensors from small tensors, such as the factors that a diffusion transformer scales with.

A kernel for the large tensors should not compute these again for each element, nor return them: they stay as they are.

Owns: which steps of a part are left out of it. Never: changes a model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

#: A tensor with so many times fewer elements than the largest one of the part is small.
TIMES_FEWER = 16


@dataclass
class LeftOut:
    """Steps of a module's code that stay out of its parts, by name."""

    steps: set[str] = field(default_factory=set)
    #: Steps that ask for a length or a dtype, which a part and the steps that are left out both need.
    shared: set[str] = field(default_factory=set)
    #: Steps that take something else than a tensor.
    apart: set[str] = field(default_factory=set)


def left_out(graph: torch.fx.Graph, tensors: tuple[torch.Tensor, ...], names: list[str]) -> LeftOut:
    """The steps of a part to be left out of it.

    `tensors` are those of a call. `names` are those of the graph's steps in the code of the module.
    """
    values = computed(graph, tensors)
    sizes = {node: elements(value) for node, value in values.items()}
    largest = max(size for size in sizes.values() if size is not None)
    steps = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    large: set[torch.fx.Node] = set()
    for node in graph.nodes:
        size = sizes.get(node)
        if size is not None and (size * TIMES_FEWER > largest or any(one in large for one in node.all_input_nodes)):
            large.add(node)
    inside = {node for node in steps if node in large}
    for node in reversed(steps):
        if node not in large and node.users and all(user in inside for user in node.users):
            inside.add(node)
    for node in steps:
        # A part takes tensors only.
        outer = [one for one in node.all_input_nodes if one in values and one not in inside and one.op != "placeholder"]
        if node in inside and node not in large and not all(isinstance(values[one], torch.Tensor) for one in outer):
            inside.remove(node)
    found = LeftOut()
    for node, name in zip(steps, names, strict=True):
        if node not in inside:
            is_shared = sizes[node] is None and any(user in inside for user in node.users)
            (found.shared if is_shared else found.steps).add(name)
    return found


def taking_others(graph: torch.fx.Graph, values: tuple[Any, ...], names: list[str]) -> set[str]:
    """The steps of a part that take something else than a tensor, such as a shape; `values` are those of a call."""
    given = [node for node in graph.nodes if node.op == "placeholder"]
    others = {node for node, one in zip(given, values, strict=True) if not isinstance(one, torch.Tensor)}
    steps = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    return {name for node, name in zip(steps, names, strict=True) if any(one in others for one in node.all_input_nodes)}


def computed(graph: torch.fx.Graph, tensors: tuple[torch.Tensor, ...]) -> dict[torch.fx.Node, Any]:
    """The value of each step in a call."""
    values: dict[torch.fx.Node, Any] = {}
    rest = iter(tensors)
    with torch.no_grad():
        for node in graph.nodes:
            arguments: Any = map_arg(node.args, values.get)
            keywords: Any = map_arg(node.kwargs, values.get)
            target: Any = node.target
            if node.op == "placeholder":
                values[node] = next(rest)
            elif node.op == "call_method":
                values[node] = getattr(arguments[0], target)(*arguments[1:], **keywords)
            elif node.op == "call_function":
                values[node] = target(*arguments, **keywords)
    return values


def elements(value: Any) -> int | None:
    """The number of elements of all tensors in a value; None if it has no tensor."""
    leaves: list[Any] = tree_leaves(value)
    tensors = [one for one in leaves if isinstance(one, torch.Tensor)]
    return sum(one.numel() for one in tensors) if tensors else None


def duplicate(graph: torch.fx.Graph, left: LeftOut) -> set[str]:
    """Gives the steps that are left out their own copies of the steps that parts need, too; returns all that stay out."""
    found = set(left.steps)
    for node in list(graph.nodes):
        if node.name not in left.shared:
            continue
        with graph.inserting_before(node):
            twin = graph.node_copy(node)
        found.add(twin.name)
        for user in list(node.users):
            if user.name in left.steps:
                user.replace_input_with(node, twin)
    return found
