"""The oracle: makes the inputs, and later the expected results in float64.

Owns: the secret seed, the reference. Never: shares a process with a candidate, and never writes an expected value before
the judge has opened its gate: when the candidate's process has ended, and at once where a candidate runs nothing on the
host.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import cast as typed

import torch

from casting import cast
from channel import Channel, python_version, wait_for
from exactly import Exactly
from inputs import (
    Function,
    Scalars,
    Tensors,
    as_list,
    generator,
    make_cotangents,
    make_inputs,
    makers_of,
    present,
    results,
)
from lanes import side_by_side
from layouts import layouts
from masks import remember
from own_errors import explained
from precision import keep_float32
from protocol import TensorSpec
from protocol_verify import (
    Done,
    Expected,
    InputsReady,
    NoBaseline,
    NoReference,
    OracleCase,
    OracleJob,
    Started,
)
from rounding import ROUNDOFF, RandomRounding
from sources import module_of
from tensors import DTYPES, digest_of, write_tensors


def expect(function: Function, case: OracleCase, inputs: Tensors, scalars: Scalars) -> list[torch.Tensor]:
    """The expected results in float64, checked against the shapes that op.toml declares."""
    wide = cast(inputs, torch.float64)
    versions = [tensor is not None and tensor._version for tensor in wide]
    expected = results(function, wide, scalars)
    for tensor, version, declared in zip(wide, versions, case.inputs):
        if tensor is not None and tensor._version != version:
            raise ValueError(f"the reference writes to its input `{declared.name}`; it must return new tensors only")
    if len(expected) != len(case.outputs):
        raise ValueError(f"the reference returns {len(expected)} tensors, op.toml has {len(case.outputs)} outputs")
    for tensor, output in zip(expected, case.outputs):
        if list(tensor.shape) != output.shape:
            raise ValueError(f"the reference returns the shape {list(tensor.shape)}, op.toml says {output.shape}")
        if DTYPES[output.dtype].is_floating_point and tensor.dtype != torch.float64:
            raise ValueError(f"the reference returns {tensor.dtype} for float64 inputs; it must keep their precision")
    return [tensor.to(torch.float64) for tensor in expected]


# How often the reference is computed in float32 to see what that arithmetic loses, at values this far apart, at least.
SAMPLES = 4
SAMPLES_OF_HARD = 2
APART = 2.0**-10
# Random roundings of short rows. Of 450,000 gradients of normalised pairs, two samples took some for more exact than they
# are, four one, and eight none.
ROUNDINGS = 8
# So often where that costs next to nothing. Of elements whose terms all but cancel, four samples take one in 1,500 for
# more exact than it is, eight one in 16,000, and sixteen none of 200,000.
SAMPLES_OF_FEW = 32
# Elements to compute in all before samples are fewer than that.
COMPUTED = 2**20
# A row of fewer elements may be small by chance, and then does not show how large the terms of its elements are.
FEW = 32


def samples_of(samples: int, tensors: Sequence[torch.Tensor | None]) -> int:
    """How often to sample, `samples` at least, and more often where the largest of `tensors` is small."""
    elements = max(one.numel() for one in tensors if one is not None)
    return max(samples, min(SAMPLES_OF_FEW, COMPUTED // max(elements, 1)))


def has_short_rows(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a tensor has rows of few elements."""
    return any(one.dim() > 0 and one.shape[-1] < FEW for one in tensors)


def terms_of(
    at: Callable[[Tensors, torch.dtype], list[torch.Tensor]],
    exact: list[torch.Tensor],
    inputs: Sequence[torch.Tensor | None],
    places: list[int],
    random: torch.Generator,
    samples: int,
) -> list[torch.Tensor]:
    """For each value, the size of the terms that it is made of, or 0 where that is not finite.

    Where terms cancel, the results do not show their size. It is taken from `at(inputs, dtype)` at some values near by, as the
    largest of two numbers. One is the error of float32, in units of its roundoff. The other is the change of the exact
    result, divided by `APART`: the same sum in another order is the exact sum of inputs that differ by some roundoffs (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2), and float32 may lose nothing where it adds two large
    inputs first.

    Where rows are short, there is a third one: the error of random roundings, in the same units.
    """
    terms = [torch.zeros_like(one) for one in exact]

    def enlarge(size: torch.Tensor, found: torch.Tensor) -> None:
        torch.maximum(size, found.nan_to_num_(nan=0.0, posinf=0.0), out=size)

    if has_short_rows(exact):
        for _ in range(ROUNDINGS):
            with RandomRounding(random):
                rounded = at([*inputs], torch.float64)
            for size, here, one in zip(terms, exact, rounded):
                enlarge(size, (one - here).abs_().div_(ROUNDOFF))
    for _ in range(samples):
        near = cast(inputs, torch.float32)
        for place in places:
            one = present(near, place)
            noise = torch.randn(one.shape, generator=random, dtype=torch.float32, device=one.device)
            near[place] = noise.mul_(APART).add_(1).mul_(one)
        for size, here, right, rounded in zip(terms, exact, at(near, torch.float64), at(near, torch.float32)):
            # In place: fresh memory costs more here than arithmetic.
            enlarge(size, rounded.to(torch.float64).sub_(right).abs_().div_(ROUNDOFF))
            enlarge(size, (right - here).abs_().div_(APART))
    return terms


def terms_of_short_rows(
    function: Function,
    case: OracleCase,
    exact: list[torch.Tensor],
    inputs: Tensors,
    scalars: Scalars,
    random: torch.Generator,
    hard: bool = False,
) -> list[torch.Tensor]:
    """For each output the size of its terms, zero where rows are long enough to show it; nothing when all are.

    With `hard` values, or where an operation's terms cancel, no row shows it, however long.
    """

    def is_short(output: TensorSpec) -> bool:
        return DTYPES[output.dtype].is_floating_point and (hard or (output.shape or [1])[-1] < FEW)

    if not any(is_short(output) for output in case.outputs):
        return []

    def at(values: Tensors, dtype: torch.dtype) -> list[torch.Tensor]:
        return results(function, cast(values, dtype), scalars)

    places = [place for place, one in enumerate(inputs) if one is not None and one.is_floating_point()]
    samples = samples_of(SAMPLES_OF_HARD if hard else SAMPLES, [*inputs, *exact])
    terms = terms_of(at, exact, inputs, places, random, samples)
    return [one if is_short(output) else torch.zeros_like(one) for one, output in zip(terms, case.outputs)]


# How often every result of an operator is rounded at random to see what an operation loses in the dtype of its results: more
# often where that takes no time. A result that jumps, such as a clamped one, jumps in a few of many runs only.
FEWEST_ROUNDINGS, MOST_ROUNDINGS = 4, 16
# Elements of all runs together, where there are more than the fewest.
ELEMENTS_OF_ROUNDINGS = 1 << 22


def roundings_for(tensors: Sequence[torch.Tensor | None]) -> int:
    """How many runs with random roundings an operation gets, with the tensors that it takes and returns."""
    elements = max((one.numel() for one in tensors if one is not None), default=0)
    return min(max(ELEMENTS_OF_ROUNDINGS // max(elements, 1), FEWEST_ROUNDINGS), MOST_ROUNDINGS)


def with_own_errors(
    function: Function,
    case: OracleCase,
    exact: list[torch.Tensor],
    terms: list[torch.Tensor],
    inputs: Tensors,
    scalars: Scalars,
    random: torch.Generator,
) -> list[torch.Tensor]:
    """Sizes of terms that explain PyTorch's own error several times, for a package that calls PyTorch's operators.

    A convolution or a product rounds its results, and may compute them by an algorithm that loses more than sums do; what comes
    after enlarges that. `terms` are the sizes that were found otherwise, or nothing. PyTorch's error is the largest of these:
    that in the real dtype, that with convolutions in channels-last layout, and that where every operator's result in float64 is
    off by a random rounding of that dtype, which shows what the next value would have become.
    """
    own = [torch.zeros_like(one) for one in exact]

    def enlarge(found: list[torch.Tensor]) -> None:
        for size, here, one in zip(own, exact, found):
            error = one.to(torch.float64).sub(here).abs_()
            torch.maximum(size, error.nan_to_num_(nan=0.0, posinf=0.0), out=size)

    for layout in layouts(inputs):
        with layout:
            eager = eager_results(function, case, inputs, scalars)
        if not isinstance(eager, str):
            enlarge(eager)
    floats = [DTYPES[one.dtype] for one in case.outputs if DTYPES[one.dtype].is_floating_point]
    if floats:
        roundoff = max(torch.finfo(one).eps for one in floats) / 2
        for _ in range(roundings_for([*inputs, *exact])):
            with RandomRounding(random, roundoff):
                enlarge(results(function, cast(inputs, torch.float64), scalars))
    found: list[torch.Tensor] = []
    for size, here, output, unit in zip(own, exact, case.outputs, case.explained):
        if unit <= 0 or here.numel() == 0:
            found.append(torch.zeros_like(here))
            continue
        values = here.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).abs_()
        # On top of the rounding of the result.
        found.append(explained(size, here, torch.finfo(DTYPES[output.dtype]).tiny).div_(unit).add_(values))
    return [torch.maximum(one, size) for one, size in zip(terms, found)] if terms else found


def gradients_of(
    function: Function, own: Function | None, places: list[int], inputs: Tensors, weights: Tensors, scalars: Scalars
) -> list[torch.Tensor]:
    """Gradients in the dtype of `inputs`: by the project's function `own`, else by autograd of the reference."""
    if own is not None:
        # It returns `None` for an input that is not passed.
        returned = typed("list[torch.Tensor | None]", results(own, [*weights, *inputs], scalars))
        return [tensor for tensor in returned if tensor is not None]
    inputs = list(inputs)
    for place in places:
        inputs[place] = present(inputs, place).detach().requires_grad_()
    with torch.enable_grad():
        outputs = as_list(function(*inputs, **scalars))
        projected = [(y, v) for y, v in zip(outputs, weights) if v is not None and y.requires_grad]
        if not projected:
            raise ValueError("no output of the reference depends on an input that has a gradient")
        leaves = [present(inputs, place) for place in places]
        outputs, by = [y for y, _ in projected], [v for _, v in projected]
        found = torch.autograd.grad(outputs, leaves, by, allow_unused=True)
    # `None` for an input on which no output depends.
    gradients = typed("tuple[torch.Tensor | None, ...]", found)
    return [torch.zeros_like(leaf) if one is None else one for one, leaf in zip(gradients, leaves)]


def expect_gradients(
    function: Function,
    own: Function | None,
    case: OracleCase,
    inputs: Tensors,
    cotangents: Tensors,
    scalars: Scalars,
    random: torch.Generator,
) -> list[torch.Tensor]:
    """The expected gradients in float64, then for each the size of the terms that it is made of."""
    places = [gradient.of for gradient in case.gradients]
    weights = cast(cotangents, torch.float64)

    def at(values: Tensors, dtype: torch.dtype) -> list[torch.Tensor]:
        return gradients_of(function, own, places, cast(values, dtype), cast(weights, dtype), scalars)

    exact = [one.to(torch.float64) for one in at(inputs, torch.float64)]
    if [list(one.shape) for one in exact] != [gradient.tensor.shape for gradient in case.gradients]:
        shapes = ", ".join(str(list(one.shape)) for one in exact)
        raise ValueError(f"the gradient of the reference has the shapes {shapes}, which are not those of its inputs")
    samples = samples_of(SAMPLES, [*inputs, *exact])
    return [*exact, *terms_of(at, exact, inputs, places, random, samples)]


def keeps_a_module(function: Function) -> bool:
    """Whether the file of a reference keeps a module. `functional_call` puts tensors into it for the time of a call, so two
    calls at a time would mix theirs."""
    values: dict[str, object] = getattr(function, "__globals__", {})
    return any(isinstance(one, torch.nn.Module) for one in values.values())


def write_inputs(job: OracleJob, makers: dict[str, Function], channel: Channel) -> bool:
    """Write the inputs of every set, and the weights of its outputs where gradients are judged; whether that could be
    done, which a function of the project that computes an input decides."""

    def write(case: OracleCase, number: int) -> str | None:
        path = os.path.join(job.inputs_dir, f"{case.place}-{number}")
        try:
            inputs = make_inputs(job.seed, makers, case, number)
        except Exception as error:  # any failure of the project's own code is told, not raised
            return f"{type(error).__name__}: {error}"
        write_tensors(f"{path}.bin", [one for one in inputs if one is not None])
        if case.sets[number].gradient:
            cotangents = make_cotangents(job.seed, case, number)
            write_tensors(f"{path}.cotangents.bin", [one for one in cotangents if one is not None])
        return None

    for case, _, error in side_by_side(job, write):
        if error is not None:
            channel.send(NoReference(case=case.place, error=error))
            return False
    return True


def eager_results(function: Function, case: OracleCase, inputs: Tensors, scalars: Scalars) -> list[torch.Tensor] | str:
    """What PyTorch itself gets in the real dtype; the reason where it gets nothing comparable."""
    try:
        eager = results(function, inputs, scalars)
    except Exception as error:
        # In few words; PyTorch lacks most operators for 8-bit floating point.
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0][:120] if lines else ''}"
    wanted = [DTYPES[output.dtype] for output in case.outputs]
    found = [tensor.dtype for tensor in eager]
    if found != wanted:
        return f"the reference returns {found[0]} for the real dtypes, op.toml says {wanted[0]}"
    return eager


def is_defined(
    function: Function,
    case: OracleCase,
    inputs: Tensors,
    scalars: Scalars,
    expected: list[torch.Tensor],
    random: torch.Generator,
) -> bool:
    """Whether PyTorch in the real dtype has what is not finite where float64 has it, at values near by, too.

    Where it does not, the reference does not say what an infinity or NaN leads to, and no kernel is held to it. An infinity
    times a difference that should be zero is NaN, or an infinity if a rounding is left of the difference. A package that calls
    PyTorch's convolutions may have them in either layout, and some of cuDNN's algorithms spread an infinity over a whole image.
    """
    for layout in layouts(inputs) if case.explained else (nullcontext(),):
        try:
            with layout:
                eager = results(function, inputs, scalars)
        except Exception:  # an operator that the real dtype lacks; the missing baseline says so
            return False
        for got, exact, output in zip(eager, expected, case.outputs):
            wanted = exact.to(DTYPES[output.dtype]).to(torch.float64)
            got = got.to(torch.float64)
            # The bound decides whether a number too large for the dtype is right.
            same = (got == wanted) | (got.isnan() & wanted.isnan()) | (got.isfinite() & wanted.isfinite())
            if got.shape != wanted.shape or not bool(same.all()):
                return False
    for _ in range(SAMPLES):
        near = cast(inputs, torch.float64)
        for place, one in enumerate(near):
            if one is not None and one.is_floating_point():
                noise = torch.randn(one.shape, generator=random, dtype=torch.float32, device=one.device)
                near[place] = noise.mul_(APART).add_(1).to(torch.float64).mul_(one)
        for here, exact in zip(results(function, near, scalars), expected):
            if not bool(((here.isnan() == exact.isnan()) & (here.isinf() == exact.isinf())).all()):
                return False
    return True


# Distributions with values that are not finite.
UNDEFINED_KINDS = ("non-finite",)
# Cases of fewer elements take longer to copy to a GPU than to compute on the host.
FEWEST_ON_GPU = 1 << 16


@cache
def gpu() -> torch.device | None:
    """The GPU for float64 arithmetic, if PyTorch can use one."""
    try:
        return torch.device("cuda") if torch.cuda.is_available() else None
    except Exception:  # a driver that does not start leaves the host
        return None


def devices_for(job: OracleJob, case: OracleCase) -> list[torch.device]:
    """The devices to compute the expected results of a case on, in order of preference. The host is always the last one:
    a reference may create tensors there, and the GPU may be full."""
    host = torch.device("cpu")
    elements = max(math.prod(one.shape) for one in [*case.inputs, *case.outputs])
    # PyTorch's operators have other errors on the host.
    device = gpu() if job.on_gpu and (case.explained or elements >= FEWEST_ON_GPU) else None
    return [host] if device is None else [device, host]


def moved(tensors: Sequence[torch.Tensor | None], device: torch.device | str) -> Tensors:
    """Tensors on a device, `None` where there is none."""
    return [None if one is None else one.to(device) for one in tensors]


@dataclass(frozen=True)
class Computed:
    """Everything that is expected of one set, on the host."""

    # The exact results and the sizes of their terms.
    values: list[torch.Tensor]
    # The same for the backward pass if it is judged.
    gradients: list[torch.Tensor] | None
    # The results of PyTorch in the real dtype, or the reason why there are none.
    eager: list[torch.Tensor] | str
    # Whether the reference leaves open what is not finite.
    undefined: bool


def on_host(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors in the host's memory."""
    return [one.to("cpu") for one in tensors]


def compute(
    job: OracleJob,
    function: Function,
    own: Function | None,
    case: OracleCase,
    number: int,
    inputs: Tensors,
    device: torch.device,
) -> Computed:
    """Everything that is expected of one set, computed on `device`."""
    chosen = case.sets[number]
    scalars = chosen.scalars
    inputs = moved(inputs, device)
    expected = expect(function, case, inputs, scalars)
    random = generator(job.seed, case.id, number, "terms", device=device)
    terms = terms_of_short_rows(function, case, expected, inputs, scalars, random, chosen.hard)
    if case.explained:
        terms = with_own_errors(function, case, expected, terms, inputs, scalars, random)
    gradients: list[torch.Tensor] | None = None
    eager: list[torch.Tensor] | str = "not asked for"
    if chosen.gradient:
        cotangents = moved(make_cotangents(job.seed, case, number), device)
        gradients = on_host(expect_gradients(function, own, case, inputs, cotangents, scalars, random))
    if chosen.baseline:
        found = eager_results(function, case, inputs, scalars)
        eager = found if isinstance(found, str) else on_host(found)
    undefined = chosen.kind in UNDEFINED_KINDS and not is_defined(function, case, inputs, scalars, expected, random)
    return Computed(on_host([*expected, *terms]), gradients, eager, undefined)


@dataclass(frozen=True)
class Written:
    """The files of one input set, or why there are none."""

    # Why the reference fails; then there are no files.
    error: str | None
    # Why there is no result of PyTorch in the real dtype, if there is none.
    missing: str | None = None
    undefined: bool = False
    digests: tuple[str, ...] = ()


def write_expected(
    job: OracleJob, function: Function, own: Function | None, makers: dict[str, Function], channel: Channel
) -> None:
    """Write the expected results of every set, and what PyTorch itself gets in the real dtype; each message has digests
    of what was written, so that nothing that comes after is taken for it."""

    def computed(case: OracleCase, number: int) -> Computed:
        inputs = make_inputs(job.seed, makers, case, number)
        *others, host = devices_for(job, case)
        with Exactly():
            for device in others:
                try:
                    return compute(job, function, own, case, number, inputs, device)
                except Exception:  # whatever fails there is computed, or fails for good, on the host
                    continue
            return compute(job, function, own, case, number, inputs, host)

    def write(case: OracleCase, number: int) -> Written:
        path = os.path.join(job.expected_dir, f"{case.place}-{number}")
        try:
            found = computed(case, number)
            write_tensors(f"{path}.bin", found.values)
            digests = [digest_of(found.values)]
            if found.gradients is not None:
                write_tensors(f"{path}.gradient.bin", found.gradients)
                digests.append(digest_of(found.gradients))
        except Exception as error:  # any failure of the project's own code is told, not raised
            return Written(error=f"{type(error).__name__}: {error}")
        missing = found.eager if isinstance(found.eager, str) else None
        if not isinstance(found.eager, str):
            write_tensors(f"{path}.eager.bin", found.eager)
        return Written(None, missing, found.undefined, tuple(digests))

    for case, number, written in side_by_side(job, write, alone=keeps_a_module(function)):
        if written.error is not None:
            channel.send(NoReference(case=case.place, error=written.error))
            continue
        if case.sets[number].baseline and written.missing is not None:
            channel.send(NoBaseline(reason=written.missing))
        channel.send(
            Expected(
                case=case.place,
                set=number,
                baseline=written.missing is None,
                undefined=written.undefined,
                digests=list(written.digests),
            )
        )


def play(job: OracleJob, channel: Channel) -> None:
    """Load the reference, write inputs, wait for the judge, write expected results.

    All modules of the harness are imported by the time that `Started` is sent: the candidate's package is imported after that.
    """
    torch.set_num_threads(job.threads)
    keep_float32(torch)
    try:
        reference = module_of(job.reference, "reference")
        remember(reference)
        function = getattr(reference, job.function)
        makers = makers_of(reference, job.cases)
        own = getattr(reference, job.gradient) if job.gradient else None
    except Exception as error:  # any failure of the project's own code is told, not raised
        channel.send(NoReference(case=None, error=f"{type(error).__name__}: {error}"))
        channel.send(Done(opened=[]))
        return
    channel.send(Started(torch=torch.__version__, python=python_version()))
    if write_inputs(job, makers, channel):
        channel.send(InputsReady())
        if wait_for(job.gate) == "go":
            write_expected(job, function, own, makers, channel)
    channel.send(Done(opened=[]))
