"""Code with a part replaced: the graph, the function that the part becomes, and the text that the graph is compiled from."""

import inspect
import itertools
import linecache
import operator
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.fx

from .matching import Way, merging
from .modules import has_hooks
from .operation import Operation, fitting, serving
from .places import Part
from .trace import INJECTED, REST, Traced


def replaced(
    operation: Operation, graph: torch.fx.Graph, forms: dict[Way, frozenset[int]], nodes: list[torch.fx.Node]
) -> Part | None:
    """Makes the code call the operation in the place of the steps that lead to `nodes`; None if that is not possible.

    `forms` are ways to take the same steps, with the numbers of axes that each is right for.
    """
    way = next(iter(forms))
    order = {node: place for place, node in enumerate(graph.nodes)}
    steps = way.steps()
    last = max(steps, key=order.__getitem__)
    if any(order[user] <= order[last] for node in nodes for user in node.users):
        return None
    names = list(dict.fromkeys(one for one in way.tensors if isinstance(one, str)))
    own = _own(graph, steps, names, nodes)
    if own is None:
        return None
    replacement = _calling(operation, forms, [*steps, *names], own)
    inner = _between(steps, nodes)
    with graph.inserting_after(last):
        called = graph.call_function(replacement)
    with graph.inserting_before(called):
        called.args = (*steps, *(graph.get_attr(name) for name in names))
    found = [called]
    if operation.results > 1:
        with graph.inserting_after(called):
            found = [graph.call_function(operator.getitem, (called, place)) for place in range(operation.results)]
    for node, one in zip(nodes, found, strict=True):
        node.replace_all_uses_with(one)
    for node in sorted(inner, key=order.__getitem__, reverse=True):
        if not node.users:
            graph.erase_node(node)
    return Part(replacement, own)


def _between(steps: list[torch.fx.Node], nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """The steps from which `nodes` follow, up to `steps`."""
    found: dict[torch.fx.Node, None] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found and node not in steps:
            found[node] = None
            waiting.extend(node.all_input_nodes)
    return list(found)


def _own(
    graph: torch.fx.Graph, steps: list[torch.fx.Node], names: list[str], nodes: list[torch.fx.Node]
) -> types.FunctionType | None:
    """The replaced part of the code as a function of the same tensors; None if it needs others."""
    inner = set(_between(steps, nodes))
    if any(node.op == "get_attr" and node.target not in names for node in inner):
        return None
    if any(node.op not in ("get_attr", "call_function", "call_method") for node in inner):
        return None
    part = torch.fx.Graph()
    values = {step: part.placeholder(f"tensor_{place}") for place, step in enumerate(steps)}
    parameters = {name: part.placeholder(f"parameter_{place}") for place, name in enumerate(names)}
    for node in graph.nodes:
        if node in inner:
            values[node] = parameters[node.target] if node.op == "get_attr" else part.node_copy(node, values.__getitem__)
    results = [values[node] for node in nodes]
    part.output(results[0] if len(results) == 1 else tuple(results))
    code = part.python_code("self")
    function = function_of(code.src, dict(code.globals), "part")
    return _without_self(function)


def _without_self(function: types.FunctionType) -> types.FunctionType:
    """A function that is called without the module that it does not use."""

    def own(*tensors):
        return function(None, *tensors)

    return own


@dataclass(frozen=True)
class _Form:
    """A way to call the operation with the tensors of some code."""

    #: For each tensor of the operation the place of the code's, or None.
    places: tuple[int | None, ...]
    #: Whether the tensors that are no parameters have lengths that the kernel takes.
    fits: Callable[[Sequence[torch.Tensor]], bool]
    ranks: frozenset[int]


def _calling(
    operation: Operation, ways: dict[Way, frozenset[int]], order: list[torch.fx.Node | str], own: types.FunctionType
) -> types.FunctionType:
    """A function of the tensors of some code, in this order, that calls the kernel where it can."""
    forms: list[_Form] = []
    for way, ranks in ways.items():
        axes = [operation.inputs[way.tensors.index(one)].axes for one in order if isinstance(one, torch.fx.Node)]
        places = tuple(None if one is None else order.index(one) for one in way.tensors)
        forms.append(_Form(places, fitting(operation, axes), ranks))
    first = next(iter(ways))
    is_plain = len(forms) == 1 and forms[0].places == tuple(range(len(order)))
    count, scalars, call, serves = len(first.steps()), first.scalars, operation.call, serving(operation)
    split = merging(operation) if first.merged else None

    def fits(form: _Form, tensors) -> bool:
        # The first tensor is never left out.
        shape = tensors[form.places[0]].shape
        if len(shape) not in form.ranks:
            return False
        if split is not None:
            return shape[-1] % max(split) == 0
        return form.fits(tensors[:count])

    def replacement(*tensors):
        if serves(tensors):
            for form in forms:
                if fits(form, tensors):
                    given = [one.contiguous() for one in tensors]
                    if split is not None:
                        given[0] = given[0].unflatten(-1, split)
                    if not is_plain:
                        given = [None if place is None else given[place] for place in form.places]
                    return call(*given, *scalars)
        elif isinstance(tensors[0], torch.fx.Proxy):
            # Another package looks at this code.
            return tensors[0].tracer.create_proxy("call_function", replacement, tensors, {})
        return own(*tensors)

    replacement.__name__, replacement.__module__, replacement.replaces = operation.name, "kernel", own
    return replacement


def compiled(traced: Traced, inner: types.FunctionType) -> types.FunctionType:
    """The graph as a function of the module, with the signature of `inner`."""
    graph = traced.graph
    for node in list(graph.nodes):
        node.type = None
        if REST in node.kwargs:
            handed = node.kwargs[REST]
            node.kwargs = {**node.kwargs, REST: handed.args[0]}
            if not handed.users:
                graph.erase_node(handed)
    code = graph.python_code("self")
    lines = code.src.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("def forward("))
    parameters = list(inspect.signature(inner).parameters.values())[1:]
    passed = ", ".join(_passed(one) for one in parameters)
    lines.insert(start + 1, f"    if _is_changed(self): return _inner(self, {passed})")
    source = re.sub(rf"\b{REST} = (\w+)", r"**\1", "\n".join(lines))
    within = tuple((tuple(name.split(".")), kind) for name, kind in traced.within.items())

    def is_changed(module) -> bool:
        for path, kind in within:
            found = module
            for step in path:
                found = found._modules[step]
            if type(found) is not kind or has_hooks(found):
                return True
        return False

    return function_of(source, {**code.globals, "_is_changed": is_changed, "_inner": inner}, inner.__qualname__)


def _passed(parameter: inspect.Parameter) -> str:
    prefixes = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**", parameter.KEYWORD_ONLY: f"{parameter.name}="}
    return prefixes.get(parameter.kind, "") + parameter.name


_COUNT = itertools.count()


def function_of(source: str, values: dict[str, object], name: str) -> types.FunctionType:
    """The function `forward` of a text, which tracebacks show."""
    file = f"{INJECTED}{next(_COUNT)} {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), values)
    found = values["forward"]
    assert isinstance(found, types.FunctionType)
    found.__qualname__ = name
    return found
