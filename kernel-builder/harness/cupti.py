"""What NVIDIA's own tracer sees of calls: every kernel of the process, whichever stream it is on and whoever started it.

Owns: the tracer's life, through PyTorch's profiler, which brings CUPTI along. Never: times anything that is compared with
a baseline, since a process that was traced once may launch more slowly; so it is asked of a process of its own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, cast

from gpu import Station, said
from operands import Case
from protocol_bench import Traced, TracedKernel

CALLS = 20


def busy(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    total, until = 0.0, -math.inf
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def observed(torch: ModuleType, work: Callable[[], None]) -> list[tuple[str, int, float, float]]:
    """Name, stream, start and end in seconds of everything that the device did meanwhile."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        work()
        torch.cuda.synchronize()
    events = cast("list[Any]", found.events() or [])
    on_device = [event for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
    return [
        (event.name, event.device_resource_id, event.time_range.start * 1e-6, event.time_range.end * 1e-6)
        for event in on_device
        if not getattr(event, "is_user_annotation", False)
    ]


def trace(torch: ModuleType, case: Case, kernel: Callable[..., Any], seed: int) -> Traced:
    """Calls on sets that do not fit into the cache, and what the device did for them."""
    case.make_pools(seed)
    sets = case.make_sets(min(CALLS, Station.count_of(Station.cache_bytes(torch), case)))
    for number, chosen in enumerate(sets):
        case.fill(chosen, seed, number)
    rotation = case.rotation(sets)

    def call(rows: list[Any]) -> None:
        for row in rows:
            kernel(*row, **case.scalars)

    call(rotation.fresh(0, 1) * 3)
    rows = rotation.fresh(0, int(min(CALLS, rotation.most)))
    torch.cuda.synchronize()
    try:
        events = observed(torch, lambda: call(rows))
    except Exception as error:
        print(f"the tracer fails: {said(error)}", file=sys.stderr)
        return Traced(calls=0, busy=0.0, streams=0, kernels=[], reason=said(error))
    kernels: dict[str, tuple[int, float]] = {}
    for name, _stream, start, end in events:
        launches, seconds = kernels.get(name, (0, 0.0))
        kernels[name] = (launches + 1, seconds + end - start)
    return Traced(
        calls=len(rows),
        busy=busy((start, end) for _name, _stream, start, end in events),
        streams=len({stream for _name, stream, _start, _end in events}),
        kernels=[
            TracedKernel(name=name, launches=launches, seconds=seconds) for name, (launches, seconds) in kernels.items()
        ],
        reason=None if events else "CUPTI reports nothing here",
    )
