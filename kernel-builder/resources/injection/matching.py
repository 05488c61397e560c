"""Where some code computes what an operation does: which of its steps are the operation's tensors, and which are the results.

Steps are compared by their values in float64, with the operation's tensors drawn.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.fx

from .modules import numbers, values_of
from .operation import LEADING, SCALES, TOLERANCE, Exact, Operation, difference, drawn
from .trace import Traced

#: Ways to take an operation's tensors from the code that are tried, for each module, and sets of steps that are looked at for
#: that.
MOST_WAYS = 3000
_MOST_SETS = 20000


@dataclass(frozen=True)
class Way:
    """Where an operation's tensors come from: a step of the code, or a parameter. None is left out."""

    tensors: tuple[torch.fx.Node | str | None, ...]
    scalars: tuple[float | int | bool, ...]
    #: Whether the last two axes of the operation's tensors are one axis in the code.
    merged: bool

    def steps(self) -> list[torch.fx.Node]:
        """The steps of the code that it takes, in the order of the tensors."""
        return [one for one in self.tensors if isinstance(one, torch.fx.Node)]


def _is_activation(operation: Operation, place: int) -> bool:
    """Whether an input comes from the code; one of a single axis is a parameter."""
    axes = operation.inputs[place].axes
    return place == 0 or operation.is_leading(axes) or len(axes) > 1


def ways_of(
    operation: Operation, module: torch.nn.Module, traced: Traced, tensors: dict[str, torch.Tensor]
) -> Iterator[Way]:
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
    merged = (False, True) if merging(operation) is not None else (False,)
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
                yield Way(tuple(given), tuple(chosen[len(others) :]), merge)


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


def merging(operation: Operation) -> tuple[int, int] | None:
    """How an axis of the code is split into the last two of an operation that takes one tensor, if one of them is fixed."""
    axes = operation.inputs[0].axes
    if len(operation.inputs) != 1 or len(axes) < 2:
        return None
    split = tuple(operation.fixed.get(axis, -1) for axis in axes[-2:])
    return split if sorted(split)[0] == -1 and sorted(split)[1] > 0 else None


class Values:
    """The values of the steps of some code, with an operation's tensors drawn."""

    def __init__(self, operation: Operation, graph: torch.fx.Graph, tensors: dict[str, torch.Tensor], way: Way) -> None:
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


def results_of(values: Values) -> tuple[list[torch.fx.Node], frozenset[int]] | None:
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


def _keeps_dtypes(values: Values, place: int, node: torch.fx.Node) -> bool:
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
