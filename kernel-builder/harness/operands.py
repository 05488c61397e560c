"""What timed calls are made with: one concrete call's shapes, its input sets, and the order in which they are used.

Owns: input values, which memory a call may overwrite, and that it holds fresh values when the call begins.
Never: looks at a clock.

The same numbers give the same inputs in every process, so that one that never sees a kernel knows what the kernel was
given. Values are cut from a pool of random numbers at a place that a seed decides: new contents for a block cost a copy,
and nobody knows them before the block begins.

A call that overwrites an input finds other values there the next time. Therefore every timed call of such an operation
has memory of its own for those inputs, and all of it is filled again before the clock starts. That is done for every
contender alike, though only the kernel overwrites: the baselines are functional, and allocate what they return.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from protocol import TORCH_NAMES, Dtype, TensorSpec
from protocol_bench import TimedCase

# Memory for the inputs that timed calls of one sample overwrite.
OVERWRITTEN_BYTES = 256 << 20
# How many elements longer than its input a pool is: as many as the input has, within these.
FEWEST_PLACES = 1 << 12
MOST_PLACES = 1 << 22


def tensors(result: Any) -> list[Any]:
    """What a call returned, as a list; nothing for `None`."""
    if result is None:
        return []
    return [*result] if isinstance(result, (tuple, list)) else [result]


def mix(*numbers: int | str) -> int:
    """One number of 63 bits from several."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "little") >> 1


class Case:
    """One concrete call: shapes, dtypes and scalars, and the values that its inputs take."""

    def __init__(self, torch: ModuleType, device: str, case: TimedCase) -> None:
        self.torch = torch
        self.id = case.id
        self.inputs = case.inputs
        self.outputs = case.outputs
        self.scalars = case.scalars
        self.accumulated = max(1, case.accumulated)
        self.dtypes: dict[Dtype, Any] = {name: getattr(torch, attribute) for name, attribute in TORCH_NAMES.items()}
        self.device = device
        # For each output the place of the input that it overwrites, or None.
        self.places = [output.inplace for output in self.outputs]
        self.overwritten = [place for place in self.places if place is not None]
        self.input_bytes = self.bytes_of(self.inputs)
        self.output_bytes = self.bytes_of(self.outputs)
        self.overwritten_bytes = self.bytes_of([self.inputs[place] for place in self.overwritten])
        self.bytes = self.input_bytes + self.output_bytes
        self.pools: list[Any] | None = None

    def bytes_of(self, declared: Sequence[TensorSpec]) -> int:
        present = [tensor for tensor in declared if not tensor.omitted]
        return sum(math.prod(tensor.shape) * self.dtypes[tensor.dtype].itemsize for tensor in present)

    def has_float8(self) -> bool:
        """Whether a tensor is of an 8-bit floating-point dtype, for which PyTorch lacks most operators."""
        declared = [self.dtypes[tensor.dtype] for tensor in self.inputs + self.outputs]
        return any(dtype.is_floating_point and dtype.itemsize == 1 for dtype in declared)

    def make_pools(self, seed: int) -> None:
        """Draws what all contents of this case are cut from."""
        generator = self.torch.Generator(device=self.device).manual_seed(seed)
        self.pools = [self.pool(declared, generator) for declared in self.inputs]

    def pool(self, declared: TensorSpec, generator: Any) -> Any:
        """Random values: normal for floating point, the whole small range for integers, never zeros; None for an
        input that is not passed."""
        if declared.omitted:
            return None
        torch, dtype, count = self.torch, self.dtypes[declared.dtype], math.prod(declared.shape)
        size = [count + min(max(count, FEWEST_PLACES), MOST_PLACES)]
        if dtype.is_floating_point:
            wide = dtype if dtype == torch.float64 else torch.float32
            values = torch.randn(size, generator=generator, device=self.device, dtype=wide).to(dtype)
            return values.abs_() if declared.non_negative else values
        low, high = (0, 2) if dtype == torch.bool else (-100, 100)
        return torch.randint(low, high, size, generator=generator, device=self.device).to(dtype)

    def make_sets(self, count: int) -> list[list[Any]]:
        """So many input sets, with memory and without contents."""
        return [self.make_set() for _ in range(count)]

    def make_set(self) -> list[Any]:
        """One input set, with memory and without contents."""
        if self.pools is None:
            raise ValueError("a case has sets when it has pools")
        return [
            None if pool is None else self.torch.empty(declared.shape, dtype=pool.dtype, device=self.device)
            for declared, pool in zip(self.inputs, self.pools)
        ]

    def fill(self, chosen: list[Any], seed: int, number: int) -> None:
        """Gives a set the contents of this seed and number. Versions of the tensors do not tell that."""
        for place, (tensor, pool) in enumerate(zip(chosen, self.pools or [])):
            if tensor is not None:
                count = tensor.numel()
                start = mix(seed, number, place) % (pool.numel() - count + 1)
                tensor.data.view(-1).copy_(pool[start : start + count])

    def edit(self, chosen: list[Any], seed: int, number: int) -> None:
        """Changes one element of a set, by 3 at least where it is a float: which one, seed and number decide."""
        places = [
            place
            for place, tensor in enumerate(chosen)
            if tensor is not None and tensor.numel() and place not in self.overwritten
        ]
        if not places:
            return
        place = places[mix(seed, number, "input") % len(places)]
        tensor = chosen[place].data.view(-1)
        position = mix(seed, number, "element") % tensor.numel()
        element = tensor[position : position + 1]
        # On the device: reading the element on the host would wait for the queue.
        old = element.to(self.torch.float64)
        new = self.torch.where(old >= 0, -old - 3, 3 - old) if tensor.dtype.is_floating_point else 1 - old
        new = new.abs_() if self.inputs[place].non_negative else new
        element.copy_(new.to(self.torch.float32).to(tensor.dtype))

    def contents(self, seed: int, number: int, edits: Sequence[int]) -> list[Any]:
        """A new set with the contents of this seed and number, and these edits done."""
        chosen = self.make_set()
        self.fill(chosen, seed, number)
        for edit in edits:
            self.edit(chosen, seed, edit)
        return chosen

    def results(self, returned: Any, arguments: Sequence[Any]) -> list[Any]:
        """Every output of a call of the kernel in order: what it returned, and copies of what it overwrote."""
        own = iter(tensors(returned))
        placed = [next(own, None) if place is None else arguments[place].clone() for place in self.places]
        return [result for result in (*placed, *own) if result is not None]

    def rotation(self, sets: Sequence[Any]) -> Rotation:
        """The arguments of one call after another, on these sets in turn."""
        return Overwritten(self, sets) if self.overwritten else Rotation(sets)


def hot_calls(case: Case, cache: int, most: int) -> int:
    """Calls of a graph on one set whose outputs, each at an address of its own, stay in half of the cache together with
    the inputs; 0 if not even two of them do."""
    calls = min(most, (cache // 2 - case.input_bytes) // max(1, case.output_bytes))
    return calls if calls >= 2 else 0


class Rotation:
    """Arguments that calls only read: the same ones come round again."""

    # How many calls may follow each other without a pause.
    most: float = math.inf

    def __init__(self, sets: Sequence[Any]) -> None:
        self.sets = sets

    def __len__(self) -> int:
        return len(self.sets)

    def reserve(self, calls: int) -> None:
        """Make room for so many calls in a row."""

    def fresh(self, first: int, count: int) -> list[Any]:
        """Arguments for `count` calls from the set `first` on, wrapping round, ready to be used."""
        return [self.sets[(first + step) % len(self.sets)] for step in range(count)]


class Overwritten(Rotation):
    """Arguments that calls overwrite: each call in a row has memory of its own where it writes, the same at every
    `fresh`, filled with the values of its set each time."""

    def __init__(self, case: Case, sets: Sequence[Any]) -> None:
        super().__init__(sets)
        self.case = case
        self.slots: list[dict[int, Any]] = []
        self.most = max(len(sets), OVERWRITTEN_BYTES // max(1, case.overwritten_bytes))
        self.reserve(len(sets))

    def reserve(self, calls: int) -> None:
        while len(self.slots) < calls:
            self.slots.append({place: self.sets[0][place].clone() for place in self.case.overwritten})

    def fresh(self, first: int, count: int) -> list[Any]:
        self.reserve(count)
        rows: list[Any] = []
        for chosen, slot in zip(super().fresh(first, count), self.slots):
            row = list(chosen)
            for place, memory in slot.items():
                memory.copy_(chosen[place])
                row[place] = memory
            rows.append(row)
        return rows
