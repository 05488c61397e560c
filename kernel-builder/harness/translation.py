"""What the translation of a function needs: its graph, its gradients, the text of the reference.

Owns: which tensors a function is called with, the reference. Never: decides what can be translated.
"""

from __future__ import annotations

import inspect
import math
import re
import traceback
import warnings
from typing import TYPE_CHECKING, Any, TypedDict, cast

import torch
from torch.export import Dim

import dropout
from bounds import shortened
from calls import FLOATS, usual, widened
from exported import GraphReport, Problem, Untranslated, exported_of, graph, identifier, kinds_of, table
from gradients import GradientReport, Reference, VariableGraph, gradient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torch import Tensor
    from torch.export import ExportedProgram

    from subject import Subject

    # The tensors of a call by name, in the order of its parameters.
    Named = list[tuple[str, Tensor]]

# Parameters that hold one number for each element of the last axis in most functions.
VECTORS = re.compile(r"(^|_)(weight|bias|gamma|beta|scale|shift|gain)$")
LIBRARY = re.compile(r"(linear|matmul|mm|addmm|bmm|baddbmm|convolution|scaled_dot_product_attention)$")
LENGTHS = (6, 10, 14, 16)
CASTS = ("_to_copy.default", "clone.default")
EXACT = "_Widened() if {first}.dtype == torch.float64 else nullcontext()"
WIDENED = '''

class _Widened(TorchDispatchMode):
    """Keeps float64 where the function casts to a narrower dtype, so that it is exact on float64 tensors."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        narrow = (torch.float32, torch.bfloat16, torch.float16)

        def wide(value):
            return torch.float64 if isinstance(value, torch.dtype) and value in narrow else value

        return function(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})
'''


class Graded(TypedDict):
    """The gradient of a function, or why it has none."""

    gradient: GradientReport | None
    ungraded: str | None


class Translation(Graded):
    """All that a project of a function needs."""

    graph: VariableGraph
    dynamic: bool
    reference: Reference
    guessed: list[str]


class Report(TypedDict):
    """The translation of a function, or why it has none."""

    translation: Translation | None
    untranslated: Problem | None


def drawn(subject: Subject) -> Named:
    """The tensors of a call: those of `example_inputs()` and of the module, others by the names of their parameters."""
    given = subject.example_values
    found: Named = []
    matrix = [LENGTHS[0], LENGTHS[-1]]
    kinds = (torch.nn.modules.batchnorm._NormBase, torch.nn.GroupNorm)
    if any(isinstance(one, kinds) for one in subject.parts()):
        # Channels of images.
        lengths = [one.shape[0] for one in subject.state.values() if one.dim() == 1]
        matrix = [3, *(lengths[:1] or [8]), LENGTHS[0], LENGTHS[1]]
    for slot in subject.slots():
        if slot.name in given:
            found.append((slot.name, given[slot.name]))
        elif slot.name in subject.state:
            found.append((slot.name, subject.state[slot.name]))
        elif not slot.optional:
            shape = [LENGTHS[-1]] if VECTORS.search(slot.name) else matrix
            found.append((slot.name, torch.randn(shape)))
    return found


def choices(subject: Subject) -> Iterator[Named]:
    """Tensors of calls to try, until one works."""
    first = drawn(subject)
    yield first
    fixed: dict[str, Any] = {**subject.example_values, **subject.state}
    free = [name for name, _ in first if name not in fixed]
    for ranks in ((2, 2), (1, 1), (3, 3), (3, 1), (4, 4), (4, 1), (2, 0)):
        shapes = {
            name: [*LENGTHS[: ranks[min(place, 1)] - 1], LENGTHS[-1]] if ranks[min(place, 1)] else []
            for place, name in enumerate(free)
        }
        yield [(name, torch.randn(shapes[name]) if name in shapes else value) for name, value in first]


def narrowed(tensors: list[Tensor], dtype: torch.dtype) -> tuple[list[Tensor], bool]:
    """Floating-point tensors in one dtype, and whether they all had the same one."""
    floats = {one.dtype for one in tensors if one.is_floating_point()}
    if len(floats) > 1:
        return tensors, False
    return [one.to(dtype) if one.is_floating_point() else one for one in tensors], True


def operators(program: ExportedProgram) -> list[tuple[str, torch.dtype]]:
    """The operators of a program without casts, and the dtypes of what they give."""
    found: list[tuple[str, torch.dtype]] = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        name = str(node.target).removeprefix("aten.")
        if node.op == "call_function" and isinstance(value, torch.Tensor) and name not in CASTS:
            dtype = torch.float32 if value.dtype in (torch.bfloat16, torch.float32) else value.dtype
            found.append((name, dtype))
    return found


def written(value: Any) -> str:
    """A value as Python text; an error for one that has none."""
    kind = type(value).__name__
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        values = list(cast("list[Any] | tuple[Any, ...]", value))
        if not any(isinstance(one, torch.Tensor) for one in values):
            inside = ", ".join(map(written, values))
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(values) == 1 else ''})"
    raise Untranslated(f"an argument is {kind}, which cannot be written into the reference")


def reference(
    subject: Subject, tensors: dict[str, Tensor], names: list[str], kept: list[str], exact: bool, seed: str | None
) -> Reference:
    """The reference of the kernel: the person's own function, or a text that calls it, and the function's name.

    `seed` is the argument for the masks of dropout.
    """
    arguments = [identifier(name) for name in names if name in kept]
    direct = [one.name for one in subject.parameters[: len(names)]] == names
    pinned = [one for one in subject.parameters if one.name not in names and (one.pinned or not one.optional)]
    if not subject.is_module and direct and not pinned and exact and seed is None:
        return {"function": subject.name, "text": ""}
    given = {name: identifier(name) for name in names}
    called: list[str] = []
    for one in subject.parameters:
        if one.name in given:
            called.append(f"{one.name}={given[one.name]}" if called and "=" in called[-1] else given[one.name])
        elif one.pinned or (one.kind == "fixed" and not one.optional):
            called.append(f"{one.name}={written(one.value)}")
        elif not one.optional:
            raise Untranslated(f"`{one.name}` has no default: give it one, or define `example_inputs()`")
        else:
            called.append(f"{one.name}={written(inspect.signature(target(subject)).parameters[one.name].default)}")
    own = subject.name
    name = f"{re.sub(r'(?<!^)(?=[A-Z])', '_', own).lower()}_reference"
    text = "\n\n# The call that the kernel computes.\n"
    text += "" if exact else "from contextlib import nullcontext  # noqa: E402\n\n"
    text += "import torch  # noqa: E402\n" if seed is None else dropout.IMPORTS
    text += "" if exact else "from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402\n" + WIDENED
    text += "" if seed is None else dropout.text()
    call = f"{own}({', '.join(called)})"
    if subject.is_module:
        maker = "example_module()" if hasattr(subject.module, "example_module") else f"{own}({made_with(subject)})"
        text += "" if seed is None else "\n"
        text += f"\n_module = {maker}.{'train' if subject.trains else 'eval'}()\n"
        state = ", ".join(f'"{key}": {given[key]}' for key in subject.state if key in kept)
        positional = [one for one in called if "=" not in one]
        by_name = [one.split("=", 1) for one in called if "=" in one]
        words = ", ".join(f'"{key}": {value}' for key, value in by_name)
        call = f"torch.func.functional_call(_module, {{{state}}}, ({''.join(one + ', ' for one in positional)}), {{{words}}})"
    modes = [] if exact else [EXACT.format(first=first_float(arguments, names, kept, tensors))]
    if seed is not None:
        arguments.append(seed)
        modes.append(f"_Dropout({seed})")
    text += f"\n\ndef {name}({', '.join(arguments)}):\n"
    text += f'    """`{own}` as a function of its tensors."""\n'
    text += f"    with {', '.join(modes)}:\n        return {call}\n" if modes else f"    return {call}\n"
    return {"function": name, "text": text}


def free_name(wanted: str, taken: list[str]) -> str:
    """A name that no other argument has."""
    return next(name for name in (wanted, *(f"{wanted}_{number}" for number in range(2, 99))) if name not in taken)


def target(subject: Subject) -> Callable[..., Any]:
    return subject.instance.forward if subject.is_module else subject.found


def made_with(subject: Subject) -> str:
    """The arguments that an instance was made with."""
    if subject.length_parameter is None:
        return ""
    bound = subject.state and next(iter(subject.state.values())).shape[0]
    return f"{subject.length_parameter}={bound or LENGTHS[-1]}"


def first_float(arguments: list[str], names: list[str], kept: list[str], tensors: dict[str, Tensor]) -> str:
    floats = [name for name in names if name in kept and tensors[name].is_floating_point()]
    return identifier(floats[0]) if floats else arguments[0]


def least_length(called: Callable[..., Any], graph: GraphReport, dtypes: list[torch.dtype]) -> int:
    """The least of 0, 1 and 2 from which on a call may have all lengths at once."""
    factors = dict(one["quotient"] for one in graph["symbols"].values() if one["quotient"])
    least = 2
    for length in (1, 0):
        tensors: list[Tensor] = []
        for one, dtype in zip(graph["inputs"], dtypes):
            shape: list[int] = []
            for terms in one["tensor"]["shape"]:
                symbols = [name for _, names in terms for name in names]
                shape.append(length * factors.get(symbols[0], 1) if symbols else sum(factor for factor, _ in terms))
            tensors.append(torch.zeros(shape, dtype=dtype))
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                called(*tensors)
        except Exception:
            break
        least = length
    return least


def differs(called: Callable[..., Any], tensors: list[Tensor]) -> bool:
    """Whether float64 does not stay float64 without help."""
    FLOATS.update(dict.fromkeys((torch.float32, torch.bfloat16, torch.float16)))
    wide = [one.double() if one.is_floating_point() else one for one in tensors]
    with torch.no_grad(), usual(torch):
        plain = flat(called(*[one.clone() for one in wide]))
        with widened(torch):
            exact = flat(called(*[one.clone() for one in wide]))
    return any(
        one.dtype != two.dtype or not torch.equal(one.nan_to_num(), two.nan_to_num())
        for one, two in zip(plain, exact)
        if one.is_floating_point() or two.is_floating_point()
    )


def flat(value: Any) -> list[Any]:
    """The parts of tuples and lists. Anything else, a dict too, is one part."""
    if isinstance(value, (tuple, list)):
        return [part for one in cast("Iterable[Any]", value) for part in flat(one)]
    return [value]


def needs_non_negative(called: Callable[..., Any], tensors: list[Tensor]) -> list[int]:
    """The places of the tensors without a negative value for which the function gives NaN if their signs change."""

    def nans(negated: list[int]) -> int:
        changed = [-one if place in negated else one.clone() for place, one in enumerate(tensors)]
        with torch.no_grad(), usual(torch):
            results = flat(called(*changed))
        return sum(
            int(one.isnan().sum()) for one in results if isinstance(one, torch.Tensor) and one.is_floating_point()
        )

    def among(places: list[int]) -> list[int]:
        if not places or nans(places) <= usually:
            return []
        half = len(places) // 2
        return places if len(places) == 1 else among(places[:half]) + among(places[half:])

    def is_candidate(one: Tensor) -> bool:
        return one.is_floating_point() and one.itemsize > 1 and one.numel() > 0 and bool((one >= 0).all())

    usually = nans([])
    return among([place for place, one in enumerate(tensors) if is_candidate(one)])


def refuse_aliases(called: Callable[..., Any], tensors: list[Tensor], names: list[str]) -> None:
    """A result that shares memory with an argument is no new tensor."""
    own = {one.untyped_storage().data_ptr(): name for one, name in zip(tensors, names) if one.numel()}
    with torch.no_grad():
        for one in flat(called(*tensors)):
            if isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr() in own:
                name = own[one.untyped_storage().data_ptr()]
                raise Untranslated(
                    f"its result is a view of its argument `{name}`, or that argument itself", final=True
                )


def translation(subject: Subject, doing: Callable[[str], None]) -> Report:
    """The graph of a function with all that a project needs; the reason where it has none. `doing` reports each step."""
    problem: Untranslated | None = None
    for chosen in choices(subject):
        names, values = [name for name, _ in chosen], [value for _, value in chosen]
        for dynamic in (True, False):
            try:
                found = translation_of_call(subject, names, values, dynamic, doing)
                return {"translation": found, "untranslated": None}
            except Untranslated as error:
                problem = error if error.final else problem or error
            except Exception as error:
                problem = problem or failure(error, subject.path)
            if problem.final:
                return {"translation": None, "untranslated": problem.report}
        if subject.example_values or not chosen:
            break
    problem = problem or Untranslated("it has no tensors as arguments")
    return {"translation": None, "untranslated": problem.report}


def failure(error: Exception, path: str) -> Untranslated:
    """What an exception of torch.export means, with the person's line that was running."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line, text = (frames[-1].lineno, frames[-1].line) if frames else (None, None)
    if "DataDependent" in type(error).__name__:
        what = "it decides by the values of tensors, and has several graphs; use `torch.where`"
        return Untranslated(what, line, text, final=True)
    return Untranslated(f"{type(error).__name__}: {error}".splitlines()[0][:300], line, text)


def kept_by_pytorch(found: VariableGraph) -> str | None:
    """An operator of a graph that stays PyTorch's, so that no kernel of ours is the gradient of the whole."""
    names = [node["op"].removeprefix("aten.").split(".")[0] for node in found["nodes"]]
    return next((name for name in names if LIBRARY.match(name)), None)


def gradient_or_reason(
    subject: Subject, exported: ExportedProgram, names: list[str], found: VariableGraph, function: str
) -> Graded:
    """The gradient, or why there is none; the function is translated all the same."""
    if kept_by_pytorch(found):
        return {"gradient": None, "ungraded": f"it calls PyTorch's `{kept_by_pytorch(found)}`"}
    try:
        with usual(torch):
            return {"gradient": gradient(subject, exported, names, found, function), "ungraded": None}
    except Untranslated as problem:
        return {"gradient": None, "ungraded": problem.report["what"]}
    except Exception as error:
        return {"gradient": None, "ungraded": failure(error, subject.path).report["what"]}


def translation_of_call(
    subject: Subject, names: list[str], values: list[Tensor], dynamic: bool, doing: Callable[[str], None]
) -> Translation:
    """The translation of one call, with lengths as symbols if `dynamic`."""
    numbers: dict[str, Any] = {}
    own, seed = list(names), None
    doing("running it")
    with usual(torch):
        if dropout.draws(subject.callable(own, numbers), values):
            seed = free_name("seed", [*map(identifier, names), *(one.name for one in subject.parameters)])
            names, values = [*names, seed], [*values, torch.zeros(1, dtype=torch.int64)]
    traced = dict(zip(names, values))

    def function_of(chosen: list[str]) -> Callable[..., Any]:
        found = subject.callable([name for name in chosen if name != seed], numbers)
        return found if seed is None else dropout.Seeded(found)

    called = function_of(names)
    with usual(torch):
        doing("exporting it")
        tensors, variable = narrowed(values, torch.bfloat16)
        kinds = kinds_of(subject, own, tensors, dynamic) + [Dim.STATIC] * (len(names) - len(own))
        exported = exported_of(called, tensors, kinds, subject.path)
        program = exported.run_decompositions(table())
        plain = graph(subject, program, names)
        seeds = [one["value"] for one in plain["inputs"] if one["name"] == seed]
        found: VariableGraph = {**plain, "variable": variable, "seed": seeds[0] if seeds else None}
        if variable:
            wide = exported_of(called, narrowed(values, torch.float32)[0], kinds, subject.path)
            if operators(wide.run_decompositions(table())) != operators(program):
                raise Untranslated("it has other operators, or other dtypes inside, for bfloat16 than for float32")
        doing("running it in float32 and float64")
        values = shortened(called, exported, values)
        refuse_aliases(called, [one.clone() for one in values], names)
    inputs = [one["name"] for one in found["inputs"]]
    needed = {identifier(names[place]) for place in needs_non_negative(called, values)}
    for one in found["inputs"]:
        one["non_negative"] = one["name"] in needed
    kept = [name for name in names if identifier(name) in inputs]
    exact = not differs(called, values)
    dtypes = [traced[name].dtype for name in kept]
    least = least_length(function_of(kept), found, dtypes) if len(kept) == len(names) else 1
    for symbol in found["symbols"].values():
        symbol["min"] = max(symbol["min"], least)
    stated = reference(subject, traced, own, [name for name in kept if name != seed], exact, seed)
    doing("tracing its gradient")
    return {
        "graph": found,
        "dynamic": dynamic,
        "reference": stated,
        **gradient_or_reason(subject, exported, names, found, stated["function"]),
        "guessed": []
        if subject.example_values
        else [name for name in kept if name in own and name not in subject.state],
    }
