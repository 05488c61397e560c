"""Functions that compute what an operation does, such as a rotary position embedding.

A module's code gets names of its own, in which the function is replaced. Other code that calls the function stays as it is.
"""

import inspect
import itertools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from .modules import values_of
from .operation import LEADING, SCALES, TOLERANCE, Exact, Operation, difference, drawn, fitting, serving
from .places import Part, with_names

#: Tensors of a function that is looked at.
_MOST_TENSORS = 4


@dataclass(frozen=True)
class _Way:
    """How a function calls the operation."""

    #: For each input of the operation, the place of the function's argument.
    places: tuple[int, ...]
    scalars: tuple[float | int | bool, ...]
    #: Whether the second and third axis of tensors with four are swapped.
    swapped: bool


#: An axis of one of the operation's tensors, by their places.
_Axis = tuple[int, int]


def with_functions(operation: Operation, inner: types.FunctionType) -> tuple[types.FunctionType, dict[str, Part]]:
    """A copy of `inner` that calls the operation in the place of functions that compute the same, which are named."""
    found: dict[str, Part] = {}
    for name in inner.__code__.co_names:
        function = inner.__globals__.get(name)
        if isinstance(function, types.FunctionType) and not function.__module__.startswith("torch."):
            part = _replacement(operation, function)
            if part is not None:
                found[name] = part
    if not found:
        return inner, found
    return with_names(inner, {name: part.replacement for name, part in found.items()}), found


#: What was found of a function and an operation.
_KNOWN: dict[tuple[int, int], tuple[object, object, Part | None]] = {}


def _replacement(operation: Operation, function: types.FunctionType) -> Part | None:
    key = (id(operation), id(function))
    if key not in _KNOWN:
        # Both are kept, so that their identities stay theirs.
        _KNOWN[key] = (operation, function, _compared(operation, function))
    return _KNOWN[key][2]


def _compared(operation: Operation, function: types.FunctionType) -> Part | None:
    parameters = list(inspect.signature(function).parameters.values())
    needed = [one.name for one in parameters if one.default is one.empty]
    kinds = {one.kind for one in parameters}
    if kinds - {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}:
        return None
    if len(needed) != len(operation.inputs) or len(needed) > _MOST_TENSORS:
        return None
    for way in _ways(operation, parameters):
        ranks = _agreement(operation, function, way)
        if ranks:
            repeated = _repeated(operation, function, way)
            return Part(_calling(operation, function, needed, way, ranks, repeated), function)
    return None


def _ways(operation: Operation, parameters: list[inspect.Parameter]) -> Iterator[_Way]:
    known = {one.name: one.default for one in parameters if isinstance(one.default, float | int)}
    scalars = [values_of(*one, known) for one in operation.scalars]
    swaps = (False, True) if len(operation.inputs[0].axes) == 4 else (False,)
    for places in itertools.permutations(range(len(operation.inputs))):
        for chosen in itertools.product(*scalars):
            for swapped in swaps:
                yield _Way(places, chosen, swapped)


def _swapped(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(1, 2) if tensor.dim() == 4 else tensor


def _shapes(operation: Operation, leading: tuple[int, ...]) -> list[tuple[int, ...]]:
    lengths = dict(operation.fixed)
    return [operation.shape(one.axes, leading, lengths) for one in operation.inputs]


def _agreement(operation: Operation, function: Callable, way: _Way) -> frozenset[tuple[int, ...]]:
    """The numbers of axes of the tensors with which both agree."""
    found: set[tuple[int, ...]] = set()
    for leading in LEADING if operation.leading else LEADING[:1]:
        shapes = _shapes(operation, leading)
        generator = torch.Generator().manual_seed(1)
        if all(_agrees(operation, function, way, [drawn(one, generator, scale) for one in shapes]) for scale in SCALES):
            found.add(tuple(len(one) for one in shapes))
    return frozenset(found)


def _repeated(operation: Operation, function: Callable, way: _Way) -> frozenset[_Axis]:
    """Axes that may have one element, which the function repeats, as a table that all sequences of a batch share."""
    if operation.leading:
        return frozenset()
    found: set[_Axis] = set()
    shapes = _shapes(operation, ())
    for place, one in enumerate(operation.inputs[1:], 1):
        for axis, name in enumerate(one.axes):
            if not any(name in other.axes for other in operation.inputs[:place]):
                continue
            generator = torch.Generator().manual_seed(2)
            tensors = [drawn(shape, generator) for shape in shapes]
            whole = tensors[place].shape
            tensors[place] = tensors[place].narrow(axis, 0, 1).expand(whole)
            if _agrees(operation, function, way, tensors, short=(place, axis)):
                found.add((place, axis))
    return frozenset(found)


def _agrees(
    operation: Operation, function: Callable, way: _Way, tensors: list[torch.Tensor], short: _Axis | None = None
) -> bool:
    """Whether both agree. The function gets one element of the axis `short`."""
    passed: list[torch.Tensor] = [tensors[0]] * len(tensors)
    for number, (tensor, place) in enumerate(zip(tensors, way.places, strict=True)):
        if short is not None and short[0] == number:
            tensor = tensor.narrow(short[1], 0, 1)
        passed[place] = _swapped(tensor) if way.swapped else tensor
    try:
        with torch.no_grad(), Exact():
            got = operation.returned(function(*[one.clone() for one in passed]))
            expected = operation.returned(operation.reference(*tensors, *way.scalars))
    except Exception:  # Whatever either says of tensors that it does not take.
        return False
    if len(got) != len(expected) or not all(isinstance(one, torch.Tensor) for one in got):
        return False
    apart = [difference(_swapped(one) if way.swapped else one, two) for one, two in zip(got, expected, strict=True)]
    return all(one is not None and one <= TOLERANCE for one in apart)


def _calling(
    operation: Operation,
    function: Callable,
    names: list[str],
    way: _Way,
    ranks: frozenset[tuple[int, ...]],
    repeated: frozenset[_Axis],
) -> Callable:
    """A function that calls the kernel where it can, and otherwise the function that it replaces."""
    places, scalars, call, serves, swapped = way.places, way.scalars, operation.call, serving(operation), way.swapped
    results, count, axes = operation.results, len(names), [one.axes for one in operation.inputs]
    fits = fitting(operation, axes)
    models: list[tuple[int, int, int, int]] = []
    for place, axis in sorted(repeated):
        # An earlier tensor has the length.
        other = next(one for one in range(place) if axes[place][axis] in axes[one])
        models.append((place, axis, other, axes[other].index(axes[place][axis])))

    def replacement(*arguments, **keywords):
        given = arguments
        if keywords and len(arguments) + len(keywords) == count and all(one in keywords for one in names[len(arguments) :]):
            given = (*arguments, *(keywords[one] for one in names[len(arguments) :]))
        elif keywords:
            given = ()
        if len(given) == count:
            tensors = [given[place] for place in places]
            if serves(tensors) and tuple([one.dim() for one in tensors]) in ranks:
                if swapped:
                    tensors = [_swapped(one) for one in tensors]
                for place, axis, other, other_axis in models:
                    one, length = tensors[place], tensors[other].shape[other_axis]
                    if one.shape[axis] == 1 and length != 1:
                        tensors[place] = one.expand(*one.shape[:axis], length, *one.shape[axis + 1 :])
                if fits(tensors):
                    found = call(*[one.contiguous() for one in tensors], *scalars)
                    if not swapped:
                        return found
                    return _swapped(found) if results == 1 else tuple([_swapped(one) for one in found])
        return function(*arguments, **keywords)

    replacement.__name__, replacement.__qualname__ = function.__name__, function.__qualname__
    return replacement
