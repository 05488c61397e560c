"""Calls of a template's operation: drawn inputs, the template's reference, and how far two results are apart.

Owns: lengths and distributions, the forms of a call, the mode in which float64 stays float64. Never: calls a person's
function.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import re
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from protocol_trace import Form, Input, Operation, TemplateJob

if TYPE_CHECKING:
    from collections.abc import Generator as Yields
    from collections.abc import Sequence

    from torch import Generator, Tensor

    Lengths = dict[str, int]
    # Another length of an axis, or `("times", number)` for a multiple.
    Changed = dict[str, int | tuple[str, int]]
    Numbers = dict[str, Any]

# Lengths of the first axis and of the others, all different, so that an axis taken for another one is seen.
PASSES = ((6, (10, 14, 22, 26, 34)), (4, (36, 18, 12, 28, 20)), (9, (130, 24, 16, 40, 32)), (8, (11, 13, 17, 19, 23)))
# How inputs are drawn: deviation, mean, and whether rows have different sizes.
DRAWN = {"normal": (1, 0, False), "tiny": (1e-3, 0, False), "offset": (1, 3, True), "wide": (30, 0, False)}
# What is reported besides; a person's function may be right where it matters and differ here.
HARD = ("huge", "non-finite", "ignored")
MOST_ORDERS = 800
MOST_HINTED = 120
NEAR = 1e-5
PLAUSIBLE = 0.5
# Inputs of one call have no more elements than this: attempts are many, and lengths of an example may be large.
MOST_ELEMENTS = 1 << 23
FAR = 1e300
FLOATS: dict[Any, None] = {}


def draw(torch: ModuleType, tensor: Input, lengths: Lengths, kind: str, numbers: Numbers, random: Generator) -> Tensor:
    """One input of an operation."""
    shape = [lengths[axis] for axis in tensor.shape]
    if tensor.kind == "bool":
        return torch.randint(0, 2, shape, generator=random).bool()
    if tensor.kind == "int":
        values = torch.randint(0, lengths.get(tensor.counts or "", 2), shape, generator=random)
        ignored = numbers.get(tensor.ignored or "")
        if kind == "ignored" and ignored is not None and values.numel():
            values.view(-1)[::3] = ignored
        return values
    deviation, mean, rows = DRAWN.get(kind, (1e4, 0, False) if kind == "huge" else DRAWN["normal"])
    values = torch.randn(shape, generator=random, dtype=torch.float64)
    if rows and len(shape) > 1:
        values = values * 10 ** (2 * torch.rand([*shape[:-1], 1], generator=random, dtype=torch.float64) - 1)
    values = values * deviation + mean
    if kind == "non-finite" and len(shape) > 1:
        flat = values.view(-1)
        for place, value in enumerate((math.inf, math.nan, -math.inf)):
            flat[(2 * place * shape[-1] + place) % flat.numel()] = value
    return values


def lengths_of(op: Operation, number: int, changed: Changed, scalars: Numbers, form: Form) -> Lengths:
    """The lengths of all axes in one pass. `changed` has another length of an axis, or `("times", number)` for a multiple."""
    first, others = PASSES[number]
    found: Lengths = {}
    turn = 0
    for place, axis in enumerate(op.axes):
        name = axis.name
        if axis.fixed is not None:
            found[name] = axis.fixed
            continue
        length = first if place == 0 else others[turn % len(others)]
        turn += place != 0
        factor = form.multiples.get(name, 1)
        for text in op.constraints:
            divides = re.fullmatch(r"(\w+) % (\w+) == 0", text)
            if divides and divides[1] == name and type(scalars.get(divides[2])) is int:
                factor = math.lcm(factor, scalars[divides[2]])
        wanted = changed.get(name)
        if isinstance(wanted, tuple):
            factor = math.lcm(factor, wanted[1])
        multiple = axis.multiple_of
        length = max(-(-length * factor // multiple) * multiple, axis.min or 0)
        found[name] = wanted if isinstance(wanted, int) else length
    return found


def widened(torch: ModuleType) -> contextlib.AbstractContextManager[Any]:
    """A mode in which nothing that is float64 becomes float32, bfloat16 or float16."""
    from torch.utils._python_dispatch import TorchDispatchMode

    complexes = {torch.complex64: torch.complex128}

    class Widened(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def wide(value: Any) -> Any:
                if isinstance(value, torch.dtype):
                    return torch.float64 if value in FLOATS else complexes.get(value, value)
                return value

            named: dict[str, Any] = kwargs or {}
            return func(*map(wide, args), **{key: wide(value) for key, value in named.items()})

    return Widened()


@contextlib.contextmanager
def usual(torch: ModuleType) -> Yields[None]:
    """The default dtype of a person's program in place of float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def flat(value: Any) -> list[Any]:
    """The tensors that a call returned, in order."""
    if isinstance(value, dict):
        return flat(list(cast("dict[Any, Any]", value).values()))
    if isinstance(value, (tuple, list)):
        return [one for part in cast("list[Any]", value) for one in flat(part)]
    return [value]


class Reference:
    """One operation of a template: its reference, and the forms of its calls."""

    def __init__(self, torch: ModuleType, job: TemplateJob) -> None:
        self.torch, self.name, self.op = torch, job.name, job.op
        spec = importlib.util.spec_from_file_location(f"template_{job.name.replace('-', '_')}", job.reference)
        if spec is None or spec.loader is None:
            raise ImportError(f"{job.reference} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.function = getattr(module, job.function)
        self.forms = job.forms

    def inputs(self, form: Form, lengths: Lengths, kind: str, numbers: Numbers, seed: int) -> dict[str, Tensor | None]:
        """Drawn inputs by name; those that the form leaves out are None, and those that it gives are what it says.

        Raises ValueError where they would have more than MOST_ELEMENTS elements.
        """
        elements = sum(math.prod(lengths[axis] for axis in tensor.shape) for tensor in self.op.inputs)
        if elements > MOST_ELEMENTS:
            raise ValueError(f"inputs of {elements} elements are too many to compare")
        random = self.torch.Generator().manual_seed(seed)
        left_out = form.without
        drawn: dict[str, Tensor | None] = {}
        for tensor in self.op.inputs:
            value = draw(self.torch, tensor, lengths, kind, numbers, random)
            drawn[tensor.name] = None if tensor.name in left_out else value
        for name, text in form.given.items():
            drawn[name] = eval(text, {"torch": self.torch, **lengths})
        return drawn

    def words(self, inputs: dict[str, Any], lengths: Lengths, numbers: Numbers) -> dict[str, Any]:
        return {"torch": self.torch, **lengths, **numbers, **inputs}

    def arguments(self, form: Form, inputs: dict[str, Any], lengths: Lengths, numbers: Numbers) -> list[Any]:
        """What a call of this form is given, made of the operation's own inputs."""
        words = self.words(inputs, lengths, numbers)
        return [eval(text, dict(words)) for text in form.arguments]

    def outputs(self, inputs: dict[str, Any], numbers: Numbers) -> dict[str, Any]:
        """The operation's outputs by name."""
        return dict(zip(self.op.outputs, flat(self.function(*inputs.values(), **numbers))))

    def results(self, form: Form, inputs: dict[str, Any], lengths: Lengths, numbers: Numbers) -> list[Any]:
        """What a call of this form returns."""
        outputs = self.outputs(inputs, numbers)
        if form.results is None:
            return list(outputs.values())
        words = self.words(inputs, lengths, numbers) | outputs
        return [eval(text, dict(words)) for text in form.results]


def deviation(torch: ModuleType, got: Any, wanted: Tensor) -> float:
    """How far a result is from what is wanted, in parts of the largest of its row; FAR where they cannot be compared."""
    if not isinstance(got, torch.Tensor) or got.shape != wanted.shape:
        return FAR
    if not wanted.dtype.is_floating_point:
        same = not got.dtype.is_floating_point and bool((got == wanted).all())
        return 0.0 if same else FAR
    if not got.dtype.is_floating_point:
        return FAR
    got, wanted = got.to(torch.float64), wanted.to(torch.float64)
    if wanted.numel() == 0:
        return 0.0
    if not bool(got.isfinite().all()) or not bool(wanted.isfinite().all()):
        return FAR
    size = wanted.abs().amax(dim=-1, keepdim=True) if wanted.dim() > 1 else wanted.abs().amax()
    return float(((got - wanted).abs() / size.clamp_min(1e-290)).amax().clamp_max(FAR))


def alike(torch: ModuleType, got: Tensor, wanted: Tensor) -> bool:
    """Whether two results are the same, NaN and infinities included."""
    if got.shape != wanted.shape:
        return False
    if not wanted.dtype.is_floating_point:
        return bool((got == wanted).all())
    return bool(torch.isclose(got.double(), wanted.double(), rtol=1e-7, atol=1e-12, equal_nan=True).all())


def placed(torch: ModuleType, got: Sequence[Any], wanted: Sequence[Tensor]) -> list[int] | None:
    """Which of the wanted results each is, by nearness; None where one has no counterpart of its shape."""
    free = list(range(len(wanted)))
    places: list[int] = []
    for one in got:
        near = [(deviation(torch, one, wanted[place]), place) for place in free]
        near = [pair for pair in near if pair[0] < FAR]
        if not near:
            return None
        places.append(min(near)[1])
        free.remove(places[-1])
    return places


def shapes(torch: ModuleType, values: Sequence[Any]) -> str:
    return ", ".join(str(list(one.shape)) if isinstance(one, torch.Tensor) else type(one).__name__ for one in values)


def halved(tensor: Tensor, first: int) -> Tensor:
    """The first axis as two, where it is the leading one."""
    if tensor.dim() and tensor.shape[0] == first:
        return tensor.unflatten(0, (2 if first % 2 == 0 else 3, -1))
    return tensor
