"""The inputs of every set of a schedule, and the functions of the project's reference file.

Owns: which random numbers an input is drawn from, edits and changes, inputs that the project computes.
Never: knows what is expected of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, TypeAlias

import torch

from casting import cast
from protocol import Scalar
from protocol_verify import OracleCase, Redraw, Reverse, Scale, Shuffle
from tensors import DTYPES
from values import distribution, edit_one, mixed_inputs, shuffled, spoil

# A function of the project: tensors and scalars in, a tensor or several out.
Function: TypeAlias = Callable[..., Any]
# The tensors of a call, `None` for one that is not passed.
Tensors: TypeAlias = list[torch.Tensor | None]
Scalars: TypeAlias = dict[str, Scalar]


def generator(seed: int, *place: object, device: torch.device | str = "cpu") -> torch.Generator:
    """Random numbers for one place of the schedule; the seed is known to this process and the judge alone."""
    text = "/".join(str(part) for part in (seed, *place))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")
    return torch.Generator(device).manual_seed(number)


def draw_inputs(seed: int, case: OracleCase, number: int) -> Tensors:
    """The inputs of one set of a case before anything is changed, `None` for one that is not passed."""
    edit_of = case.sets[number].edit_of
    source = number if edit_of is None else edit_of
    kind = case.sets[source].kind
    hard = mixed_inputs(case) if kind == "mixed" else []
    inputs: Tensors = []
    for place, tensor in enumerate(case.inputs):
        random = generator(seed, case.id, source, place)
        own, share = kind, (0, 1)
        if kind == "mixed":
            own, share = ("mixed", (hard.index(place), len(hard))) if place in hard else ("normal", share)
        if tensor.seed:
            inputs.append(torch.randint(-(2**63), 2**63 - 1, tensor.shape, generator=random))
            continue
        dtype = DTYPES[tensor.dtype]
        inputs.append(None if tensor.omitted else distribution(own, tensor.shape, dtype, random, share))
    if kind == "non-finite":
        spoil(inputs, generator(seed, case.id, source, "spoil"))
    return inputs


def rearranged(tensor: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Applies a function that only moves elements. On the CPU, PyTorch can move 8-bit floats only as bytes."""
    return function(tensor.view(torch.uint8)).view(tensor.dtype) if is_float8(tensor) else function(tensor)


def computed(tensor: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The function of the tensor in its dtype; of 8-bit floats, which PyTorch does not compute with, in float32."""
    return function(tensor.float()).to(tensor.dtype) if is_float8(tensor) else function(tensor)


def is_float8(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.element_size() == 1


def change_inputs(inputs: Tensors, seed: int, case: OracleCase, number: int) -> None:
    """Change whole inputs as the set says. They may be in another dtype by now."""
    change = case.sets[number].change
    if change is None:
        return
    random = generator(seed, case.id, number, "change")
    if isinstance(change, Reverse):
        for place, dimension in change.places:
            inputs[place] = rearranged(present(inputs, place), partial(torch.flip, dims=[dimension]))
        return
    place = change.input
    old, tensor = present(inputs, place), case.inputs[place]
    if isinstance(change, Redraw):
        inputs[place] = distribution("normal", tensor.shape, DTYPES[tensor.dtype], random).to(old.dtype)
    elif isinstance(change, Shuffle):
        inputs[place] = rearranged(old, partial(shuffled, dimension=change.dimension, random=random))
    elif isinstance(change, Scale):
        inputs[place] = computed(old, lambda values: values * change.by)
    else:
        inputs[place] = computed(old, lambda values: values + change.by)


def present(inputs: Tensors, place: int) -> torch.Tensor:
    """An input that the schedule changes, which it does to those that are passed alone."""
    found = inputs[place]
    if found is None:
        raise ValueError(f"the schedule changes input {place}, which is not passed")
    return found


def makers_of(reference: ModuleType, cases: Sequence[OracleCase]) -> dict[str, Function]:
    """The functions of the reference that compute inputs, by name."""
    names = {tensor.computed for case in cases for tensor in case.inputs if tensor.computed}
    return {name: getattr(reference, name) for name in names}


def compute_inputs(inputs: Tensors, makers: dict[str, Function], case: OracleCase, scalars: Scalars) -> None:
    """Put in what the project's functions compute of the other inputs, such as a result that was saved: in float64, then
    rounded to the dtype that the input has."""
    wide = None
    for place, (old, tensor) in enumerate(zip(inputs, case.inputs)):
        if old is None or tensor.computed is None:
            continue
        if wide is None:
            others = [None if other.computed else one for one, other in zip(inputs, case.inputs)]
            wide = cast(others, torch.float64)
        made = results(makers[tensor.computed], wide, scalars)
        if len(made) != 1 or list(made[0].shape) != tensor.shape:
            shapes = ", ".join(str(list(one.shape)) for one in made)
            raise ValueError(f"`{tensor.computed}` returns {shapes} for `{tensor.name}`, which is {tensor.shape}")
        inputs[place] = made[0].to(old.dtype)


def make_inputs(seed: int, makers: dict[str, Function], case: OracleCase, number: int) -> Tensors:
    """The inputs of one set of a case, `None` for one that is not passed; the same call gives the same bytes."""
    chosen = case.sets[number]
    inputs = draw_inputs(seed, case, number)
    change_inputs(inputs, seed, case, number)
    edited = chosen.edit_input
    random = generator(seed, case.id, number, "edit")
    if edited is not None and not case.inputs[edited].computed:
        edit_one(present(inputs, edited), random)
    for place, tensor in enumerate(case.inputs):
        if tensor.non_negative:
            inputs[place] = None if tensor.omitted else present(inputs, place).abs()
    compute_inputs(inputs, makers, case, chosen.scalars)
    if edited is not None and case.inputs[edited].computed:
        edit_one(present(inputs, edited), random)
    return inputs


def make_cotangents(seed: int, case: OracleCase, number: int) -> Tensors:
    """A random weight for the gradient of each output; `None` where an output has no gradient."""
    cotangents: Tensors = []
    for place, output in enumerate(case.outputs):
        random, dtype = generator(seed, case.id, number, "cotangent", place), DTYPES[output.dtype]
        cotangents.append(distribution("normal", output.shape, dtype, random) if dtype.is_floating_point else None)
    return cotangents


def as_list(returned: Any) -> list[torch.Tensor]:
    """The results of a function as a list, also if there is only one."""
    return [*returned] if isinstance(returned, (tuple, list)) else [returned]


def results(function: Function, inputs: Sequence[torch.Tensor | None], scalars: Scalars) -> list[torch.Tensor]:
    """Call a reference function without gradients; its results as a list."""
    with torch.no_grad():
        return as_list(function(*inputs, **scalars))
