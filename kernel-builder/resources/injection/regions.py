"""Parts of a module's code that compute what an operation does: an activation and a product between linear layers, or a sum
and the norm after it.

A part is replaced if its results and those of the operation's reference agree in float64, whatever the tensors that go into
it. The rest of the code stays as it was written.
"""

import itertools
import operator
import types
from dataclasses import dataclass, field

import torch
import torch.fx

from .matching import MOST_WAYS, Values, Way, results_of, ways_of
from .operation import Operation, drawn
from .places import Part
from .rewriting import compiled, replaced
from .trace import Traced, Unclear, trace

#: Parts of one module that are replaced.
_MOST_PARTS = 8
#: Elements of a parameter that a part of the code may have.
_MOST_ELEMENTS = 1 << 20


@dataclass
class Region:
    """The code of a module with parts replaced."""

    forward: types.FunctionType
    parts: list[Part] = field(default_factory=list)


def region(
    operation: Operation,
    module: torch.nn.Module,
    inner: types.FunctionType,
    left: set[torch.nn.Module],
    known: dict[tuple, Region | None],
) -> Region | None:
    """The code of `inner`, a function of the module, with the parts replaced that compute the operation; None without such.

    Modules in `left` stay as they are: they compute the operation already. Modules with the same code have the same parts;
    those are `known`.
    """
    try:
        traced = trace(module, inner, left)
        key = (inner, str(traced.graph), tuple(traced.within.items()), tuple(_shapes(module, traced.graph).items()))
        if key in known:
            return known[key]
        parts, used = _parts(operation, module, traced)
        if parts and used != set(traced.within):
            # Submodules that are in no part are called as before.
            others = {module.get_submodule(name) for name in traced.within if name not in used}
            traced = trace(module, inner, left | others)
            parts, _ = _parts(operation, module, traced)
    except Unclear:
        return None
    known[key] = Region(compiled(traced, inner), parts) if parts else None
    return known[key]


def _shapes(module: torch.nn.Module, graph: torch.fx.Graph) -> dict[str, tuple[int, ...]]:
    """The shapes of small tensors of the module that the code uses."""
    found: dict[str, tuple[int, ...]] = {}
    for name in {str(node.target): None for node in graph.nodes if node.op == "get_attr"}:
        tensor = operator.attrgetter(name)(module)
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel() <= _MOST_ELEMENTS:
            found[name] = tuple(tensor.shape)
    return found


def _parts(operation: Operation, module: torch.nn.Module, traced: Traced) -> tuple[list[Part], set[str]]:
    """Replaces parts of the code, and names the submodules that they have steps of."""
    parts: list[Part] = []
    used: set[str] = set()
    while len(parts) < _MOST_PARTS:
        before = set(traced.graph.nodes)
        part = _next_part(operation, module, traced)
        if part is None:
            break
        parts.append(part)
        used |= {traced.owners[node] for node in before - set(traced.graph.nodes) if node in traced.owners}
    return parts, used


def _next_part(operation: Operation, module: torch.nn.Module, traced: Traced) -> Part | None:
    generator = torch.Generator().manual_seed(0)
    # Drawn anew: parameters of a new model are all alike.
    tensors = {name: drawn(shape, generator) for name, shape in _shapes(module, traced.graph).items()}

    def results(way: Way) -> tuple[list[torch.fx.Node], frozenset[int]] | None:
        values = Values(operation, traced.graph, tensors, way)
        return results_of(values) if all(values.same((2, 3) if operation.leading else (), 1.0)) else None

    ways = itertools.islice(ways_of(operation, module, traced, tensors), MOST_WAYS)
    for way in ways:
        found = results(way)
        if found is None:
            continue
        nodes, ranks = found
        forms = {way: ranks}
        if len({operation.inputs[place].axes for place, one in enumerate(way.tensors) if one in way.steps()}) > 1:
            # Which factor of a product is the one that is repeated shows in the shapes of a call alone.
            for other in ways:
                if set(other.steps()) != set(way.steps()):
                    break
                found = results(other) if (other.scalars, other.merged) == (way.scalars, way.merged) else None
                if found is not None and found[0] == nodes:
                    forms[other] = found[1]
        part = replaced(operation, traced.graph, forms, nodes)
        if part is not None:
            return part
    return None
