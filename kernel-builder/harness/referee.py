"""Compares outputs of timed calls with the reference in float64; runs where no kernel does.

Owns: the bound, and that inputs are what they were. Never: shares a process with a candidate.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from operands import Case, tensors
from own_errors import loosely
from protocol_bench import BaselineJob, TimedCall, Tolerance


def worst_excess(
    torch: ModuleType, case: Case, tolerance: Tolerance, oracle: Any, output: Any, own: Any | None = None
) -> float:
    """The largest error of `output` as a multiple of what its arithmetic explains; infinite for a wrong shape.

    `own` are PyTorch's results in the real dtype, where a package that calls its operators may be as far off several times.

    Explained: the allowed roundings to the output dtype, plus sums of `accumulated` terms whose errors behave like a
    random walk (N. Higham, T. Mary, "A new approach to probabilistic rounding error analysis", 2019), with room to
    spare: `verify` has judged the kernel more sharply; this asks whether it still computes when it is timed.
    """
    if output.shape != oracle.shape:
        return math.inf
    if output.numel() == 0:
        return 0.0
    if not output.dtype.is_floating_point:
        return 0.0 if torch.equal(output, oracle.to(output.dtype)) else math.inf
    unit = torch.finfo(output.dtype).eps
    accumulate = case.dtypes[tolerance.accumulate]
    summed = torch.finfo(accumulate).eps if accumulate.is_floating_point else 0.0
    exact, got = oracle.to(torch.float64), output.to(torch.float64)
    scale = exact.abs().max()
    bound = max(1, tolerance.roundings) * unit * exact.abs()
    bound = bound + 8 * summed * math.sqrt(case.accumulated) * scale + torch.finfo(output.dtype).tiny
    if own is not None:
        error = (own.to(torch.float64) - exact).abs().nan_to_num(nan=0.0, posinf=0.0)
        bound = bound + loosely(error)
    same = (exact == got) | (exact.isnan() & got.isnan())
    if output.element_size() == 1:
        # Conversions to 8 bits saturate, or give no finite number; what lies beyond the range may be either.
        largest = torch.finfo(output.dtype).max
        saturated = (got.abs() == largest) & (got.sign() == exact.sign())
        same |= (exact.abs() + bound >= largest) & (saturated | ~got.isfinite())
    excess = torch.where(same, torch.zeros_like(bound), (got - exact).abs() / bound)
    # What is NaN here is NaN on one side only, and compares false to every bound.
    return float(excess.nan_to_num(nan=math.inf, posinf=math.inf).max())


def exact_results(
    torch: ModuleType, job: BaselineJob, reference: ModuleType, case: Case, inputs: Sequence[Any]
) -> list[Any]:
    """What the reference gives in float64."""
    oracle_of = getattr(reference, job.reference.function)
    wide = [t.to(torch.float64) if t is not None and t.dtype.is_floating_point else t for t in inputs]
    if not job.tolerance.own_errors:
        return tensors(oracle_of(*wide, **case.scalars))
    from exactly import Exactly

    with Exactly():
        return tensors(oracle_of(*wide, **case.scalars))


def own_results(
    torch: ModuleType, job: BaselineJob, reference: ModuleType, case: Case, inputs: Sequence[Any], exact: Sequence[Any]
) -> list[Any]:
    """What PyTorch gives in the real dtypes, where its errors count: each element in the layout of convolutions in which it is
    further from `exact`. Otherwise `None` for each result."""
    if not job.tolerance.own_errors:
        return [None] * len(exact)
    from layouts import layouts

    function = getattr(reference, job.reference.function)

    def further(one: Any, other: Any, wanted: Any) -> Any:
        """The elements of two results that are further off."""
        return torch.where((other - wanted).abs() > (one - wanted).abs(), other, one)

    found: list[Any] = []
    for layout in layouts(inputs):
        with torch.no_grad(), layout:
            others = tensors(function(*inputs, **case.scalars))
        found = [further(*three) for three in zip(found, others, exact)] if found else others
    return found


def times(excess: float) -> str:
    """An error in words."""
    return "not finite or of another shape" if excess == math.inf else f"{excess:.3g} times too far off"


class Bytes:
    """Tensors that lie one after the other in a file."""

    def __init__(self, torch: ModuleType, path: str, device: str) -> None:
        self.torch, self.device, self.at = torch, device, 0
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            held = torch.empty(size, dtype=torch.uint8)
            memory = (ctypes.c_char * size).from_address(held.data_ptr())
            done = 0
            # One call reads 2 GiB at most.
            while done < size and (count := file.readinto(memoryview(memory).cast("B")[done:])):
                done += count
        self.data = held[:done]

    def next(self, shape: list[int], dtype: Any) -> Any:
        """The tensor that comes next."""
        count = math.prod(shape) * dtype.itemsize
        part = self.data[self.at : self.at + count]
        if part.numel() != count:
            raise ValueError("a file of outputs ends early")
        self.at += count
        if count == 0:
            return self.torch.empty(shape, dtype=dtype, device=self.device)
        return part.to(self.device, copy=True).view(dtype).reshape(shape)


def same_bits(torch: ModuleType, one: Any, other: Any) -> bool:
    """Whether two tensors hold the same bits."""
    return torch.equal(one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))


def judge(
    torch: ModuleType, job: BaselineJob, reference: ModuleType, case: Case, calls: Sequence[TimedCall]
) -> str | None:
    """The first thing that is wrong with outputs or inputs of these calls, if anything."""
    for call in calls:
        data = Bytes(torch, call.file, case.device)
        expected = case.contents(call.seed, call.number, call.edits.done)
        left = case.contents(call.seed, call.number, call.edits.all)
        for place, (declared, tensor) in enumerate(zip(case.inputs, left)):
            if tensor is None or place in case.overwritten:
                continue
            if not same_bits(torch, data.next(declared.shape, tensor.dtype), tensor):
                return f"input `{declared.name}` was changed"
        exact = exact_results(torch, job, reference, case, expected)
        own = own_results(torch, job, reference, case, expected, exact)
        for declared, one, usual in zip(case.outputs, exact, own):
            got = data.next(declared.shape, case.dtypes[declared.dtype])
            excess = worst_excess(torch, case, job.tolerance, one, got, usual)
            if excess > 1.0:
                return f"output `{declared.name}` is {times(excess)}"
    return None
