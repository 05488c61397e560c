"""Parts of a module's code that compute what an operation does: an activation and a product between linear layers, or a sum
and the norm after it.

A part is replaced if its results and those of the operation's reference agree in float64, whatever the tensors that go into
it. The rest of the code stays as it was written.
"""

import inspect
import itertools
import linecache
import operator
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.fx

from .modules import has_hooks, numbers, values_of
from .operation import LEADING, SCALES, TOLERANCE, Exact, Operation, difference, drawn, fitting, serving
from .places import Part
from .trace import INJECTED, REST, Traced, Unclear, trace

#: Ways to take an operation's tensors from the code that are tried, for each module, and sets of steps that are looked at for
#: that.
_MOST_WAYS = 3000
_MOST_SETS = 20000
#: Parts of one module that are replaced.
_MOST_PARTS = 8
#: Elements of a parameter that a part of the code may have.
_MOST_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class _Way:
    """Where an operation's tensors come from: a step of the code, or a parameter. None is left out."""

    tensors: tuple[torch.fx.Node | str | None, ...]
    scalars: tuple[float | int | bool, ...]
    #: Whether the last two axes of the operation's tensors are one axis in the code.
    merged: bool

    def steps(self) -> list[torch.fx.Node]:
        """The steps of the code that it takes, in the order of the tensors."""
        return [one for one in self.tensors if isinstance(one, torch.fx.Node)]


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
    known[key] = Region(_compiled(traced, inner), parts) if parts else None
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

    def results(way: _Way) -> tuple[list[torch.fx.Node], frozenset[int]] | None:
        values = _Values(operation, traced.graph, tensors, way)
        return _results(values) if all(values.same((2, 3) if operation.leading else (), 1.0)) else None

    ways = itertools.islice(_ways(operation, module, traced, tensors), _MOST_WAYS)
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
        part = _replaced(operation, traced.graph, forms, nodes)
        if part is not None:
            return part
    return None


def _is_activation(operation: Operation, place: int) -> bool:
    """Whether an input comes from the code; one of a single axis is a parameter."""
    axes = operation.inputs[place].axes
    return place == 0 or operation.is_leading(axes) or len(axes) > 1


def _ways(
    operation: Operation, module: torch.nn.Module, traced: Traced, tensors: dict[str, torch.Tensor]
) -> Iterator[_Way]:
    """Every way to take the operation's tensors from the code; steps that come early are taken first."""
    activations = [place for place in range(len(operation.inputs)) if _is_activation(operation, place)]
    steps = [
        node
        for node in traced.graph.nodes
        if node.op in ("placeholder", "call_module", "call_function", "call_method")
        and not (node.op == "placeholder" and str(node.target).startswith("*"))
        and any(_is_computed(user) for user in node.users)
    ]
    known: dict[str, float | int | bool] = {}
    for name in traced.within:
        known.update(numbers(module.get_submodule(name)))
    known.update(numbers(module))
    constants = [one for node in traced.graph.nodes for one in node.args if isinstance(one, float | int)]
    known.update({f"constant {place}": one for place, one in enumerate(constants)})

    def sources(place: int) -> list[str | None]:
        wanted = operation.inputs[place]
        found: list[str | None] = [name for name, one in tensors.items() if one.dim() == len(wanted.axes)]
        return [*found, None] if wanted.optional else found

    others = [place for place in range(len(operation.inputs)) if place not in activations]
    choices = [sources(place) for place in others] + [values_of(*one, known) for one in operation.scalars]
    merged = (False, True) if _merging(operation) is not None else (False,)
    depending = _depending(operation)
    sets = itertools.islice(itertools.combinations(range(len(steps)), len(activations)), _MOST_SETS)
    for found in sorted(sets, key=lambda one: (max(one), sum(one))):
        needed = _needed(traced.graph, [steps[step] for step in found])
        for places in itertools.permutations(found):
            taken = {place: steps[step] for place, step in zip(activations, places, strict=True)}
            if not all(frozenset(taken[place] for place in one) in needed for one in depending):
                continue
            for chosen, merge in itertools.product(itertools.product(*choices), merged):
                given = [taken.get(place) for place in range(len(operation.inputs))]
                for place, source in zip(others, chosen):
                    given[place] = source
                yield _Way(tuple(given), tuple(chosen[len(others) :]), merge)


def _needed(graph: torch.fx.Graph, steps: list[torch.fx.Node]) -> set[frozenset[torch.fx.Node]]:
    """The sets of `steps` from which something follows, with parameters alone beside them."""
    needed: dict[torch.fx.Node, frozenset[torch.fx.Node]] = {step: frozenset((step,)) for step in steps}
    found: set[frozenset[torch.fx.Node]] = set()
    for node in graph.nodes:
        if node.op == "get_attr":
            needed.setdefault(node, frozenset())
        elif node not in needed and _is_computed(node) and all(one in needed for one in node.all_input_nodes):
            needed[node] = frozenset().union(*(needed[one] for one in node.all_input_nodes))
            found.add(needed[node])
    return found


def _depending(operation: Operation) -> list[frozenset[int]]:
    """For each result of the operation, the places of the activations that change it."""
    generator, lengths = torch.Generator().manual_seed(3), dict(operation.fixed)
    leading = (2,) if operation.leading else ()
    shapes = [operation.shape(one.axes, leading, lengths) for one in operation.inputs]
    tensors = [drawn(shape, generator) for shape in shapes]
    scalars = [default for _, default in operation.scalars]

    def results(given: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            return operation.returned(operation.reference(*given, *scalars))

    before = results(tensors)
    found: list[set[int]] = [set() for _ in before]
    for place, shape in enumerate(shapes):
        if _is_activation(operation, place):
            after = results([*tensors[:place], drawn(shape, generator), *tensors[place + 1 :]])
            for one, two, places in zip(before, after, found, strict=True):
                if not torch.equal(one, two):
                    places.add(place)
    return [frozenset(one) for one in found]


def _merging(operation: Operation) -> tuple[int, int] | None:
    """How an axis of the code is split into the last two of an operation that takes one tensor, if one of them is fixed."""
    axes = operation.inputs[0].axes
    if len(operation.inputs) != 1 or len(axes) < 2:
        return None
    split = tuple(operation.fixed.get(axis, -1) for axis in axes[-2:])
    return split if sorted(split)[0] == -1 and sorted(split)[1] > 0 else None


class _Values:
    """What the steps of some code are, with an operation's tensors drawn."""

    def __init__(self, operation: Operation, graph: torch.fx.Graph, tensors: dict[str, torch.Tensor], way: _Way) -> None:
        self.operation, self.graph, self.tensors, self.way = operation, graph, tensors, way
        #: The lengths of axes that parameters decide.
        self.lengths = dict(operation.fixed)
        for wanted, source in zip(operation.inputs, way.tensors, strict=True):
            if isinstance(source, str):
                self.lengths.update(zip(wanted.axes, tensors[source].shape, strict=True))

    def computed(
        self, leading: tuple[int, ...], scale: float, dtype: torch.dtype | None = None
    ) -> tuple[dict[torch.fx.Node, object], list[torch.Tensor]]:
        """The value of each step that follows from the operation's tensors, and the results of the reference."""
        generator, lengths, way = torch.Generator().manual_seed(1), dict(self.lengths), self.way

        def cast(tensor: torch.Tensor) -> torch.Tensor:
            return tensor if dtype is None else tensor.to(dtype)

        given: dict[torch.fx.Node, object] = {}
        passed: list[torch.Tensor | None] = []
        for wanted, source in zip(self.operation.inputs, way.tensors, strict=True):
            if isinstance(source, torch.fx.Node):
                tensor = cast(drawn(self.operation.shape(wanted.axes, leading, lengths), generator, scale))
                given[source] = tensor.flatten(-2) if way.merged else tensor
                passed.append(tensor)
            else:
                passed.append(cast(self.tensors[source]) if source is not None else None)
        with torch.no_grad():
            expected = self.operation.returned(self.operation.reference(*passed, *way.scalars))
            values = _evaluated(self.graph, given, {name: cast(one) for name, one in self.tensors.items()})
        return values, expected

    def same(self, leading: tuple[int, ...], scale: float) -> list[list[torch.fx.Node]]:
        """For each result, the steps that are equal to it."""
        try:
            with Exact():
                values, expected = self.computed(leading, scale)
        except Exception:  # Whatever the reference says of an input that it does not take.
            return [[]]
        taken = self.way.steps()

        def equals(value: object, wanted: torch.Tensor) -> bool:
            if not isinstance(value, torch.Tensor) or value.shape != wanted.shape:
                return False
            apart = difference(value, wanted)
            return apart is not None and apart <= TOLERANCE

        return [
            [node for node, value in values.items() if node not in taken and equals(value, wanted)] for wanted in expected
        ]


def _is_computed(node: torch.fx.Node) -> bool:
    """Whether a step is one of PyTorch's functions, and no part that is replaced already."""
    return node.op in ("call_function", "call_method") and not hasattr(node.target, "replaces")


def _evaluated(
    graph: torch.fx.Graph, given: dict[torch.fx.Node, object], tensors: dict[str, torch.Tensor]
) -> dict[torch.fx.Node, object]:
    """The values of all steps that follow from the given ones."""
    values = dict(given)
    for node in graph.nodes:
        if node in values:
            continue
        if node.op == "get_attr" and node.target in tensors:
            values[node] = tensors[node.target]
        if not _is_computed(node) or not all(one in values for one in node.all_input_nodes):
            continue
        arguments, keywords = torch.fx.map_arg((node.args, node.kwargs), lambda one: values[one])
        try:
            if node.op == "call_method":
                values[node] = getattr(arguments[0], node.target)(*arguments[1:], **keywords)
            else:
                values[node] = node.target(*arguments, **keywords)
        except Exception:  # A step that takes no such tensors; what follows from it is not known either.
            continue
    return values


def _results(values: _Values) -> tuple[list[torch.fx.Node], frozenset[int]] | None:
    """For each result the step that it replaces, and the numbers of axes of the first tensor for which it may."""
    operation = values.operation
    chosen: list[set[torch.fx.Node]] | None = None
    ranks: set[int] = set()
    # The numbers of axes with which linear layers are called most come first: they decide.
    leadings = sorted(LEADING, key=lambda one: len(one) != 2) if operation.leading else LEADING[:1]
    for leading in leadings:
        alike: list[set[torch.fx.Node]] | None = None
        for scale in SCALES:
            found = [set(nodes) for nodes in values.same(leading, scale)]
            alike = found if alike is None or not all(found) else [one & two for one, two in zip(alike, found, strict=True)]
            if not all(alike):
                break
        assert alike is not None
        both = alike if chosen is None else [one & two for one, two in zip(chosen, alike)]
        if not all(both) or len(both) != operation.results:
            continue
        chosen = both
        ranks.add(len(operation.inputs[0].axes) - values.way.merged + len(leading) - operation.leading)
    if chosen is None:
        return None
    fitting = [{node for node in nodes if _keeps_dtypes(values, place, node)} for place, nodes in enumerate(chosen)]
    if not all(fitting):
        return None
    order = {node: place for place, node in enumerate(values.graph.nodes)}
    return [max(nodes, key=order.__getitem__) for nodes in fitting], frozenset(ranks)


def _keeps_dtypes(values: _Values, place: int, node: torch.fx.Node) -> bool:
    """Whether a step has the dtype of the operation's result, for each dtype of the operation's tensors."""
    known = False
    for dtype in values.operation.dtypes:
        try:
            found, expected = values.computed((2, 3) if values.operation.leading else (), 1.0, dtype)
        except Exception:  # The processor lacks an operator for this dtype.
            continue
        value = found.get(node)
        if isinstance(value, torch.Tensor):
            known = True
            if value.dtype != expected[place].dtype:
                return False
    return known


def _replaced(
    operation: Operation, graph: torch.fx.Graph, forms: dict[_Way, frozenset[int]], nodes: list[torch.fx.Node]
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
    function = _function(code.src, dict(code.globals), "part")
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
    operation: Operation, ways: dict[_Way, frozenset[int]], order: list[torch.fx.Node | str], own: types.FunctionType
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
    split = _merging(operation) if first.merged else None

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


def _compiled(traced: Traced, inner: types.FunctionType) -> types.FunctionType:
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

    return _function(source, {**code.globals, "_is_changed": is_changed, "_inner": inner}, inner.__qualname__)


def _passed(parameter: inspect.Parameter) -> str:
    prefixes = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**", parameter.KEYWORD_ONLY: f"{parameter.name}="}
    return prefixes.get(parameter.kind, "") + parameter.name


_COUNT = itertools.count()


def _function(source: str, values: dict[str, object], name: str) -> types.FunctionType:
    """The function `forward` of a text, which tracebacks show."""
    file = f"{INJECTED}{next(_COUNT)} {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), values)
    found = values["forward"]
    assert isinstance(found, types.FunctionType)
    found.__qualname__ = name
    return found
