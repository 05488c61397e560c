"""Blocks of calls on the processor.

Owns: how many calls are a sample, what is done before the clock starts, which outputs of a block are kept.
Never: sees a reference. What it says of time is checked from outside by the program's own clock.

A block calls its sets in rounds. Between two rounds the clock stands still, and every set gets an edit that the request
names, so no timed call finds contents that an earlier one had. Untimed calls have a set of their own.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from operands import Case, Rotation
from protocol_bench import BlockRequest, LeftOut, Sizes

# Bound before any kernel is imported: who replaces `time.perf_counter_ns` later does not replace this.
clock = time.perf_counter_ns
# Seconds between two samples.
PAUSE = 0.003
SAMPLE_NS = 200_000
SETS = 8
SET_BYTES = 256 << 20
# Small cases have more sets: rounds of few short calls would be timed badly.
MOST_SETS = 64
SMALL_BYTES = 256 << 10
# Outputs of a block are all kept up to so many bytes; beyond it some of its calls' are.
KEPT_BYTES = 4 << 20
FEWEST_KEPT = 4


def rounds(
    sets: int, number: int, edits: Sequence[tuple[int, int]]
) -> tuple[list[int], dict[int, list[tuple[int, int]]]]:
    """Where the clock is stopped among `number` calls, and the edits that are done there: before a call comes back to a set.
    Without edits nothing stops."""
    if not edits:
        return [0, number], {}
    bounds = [*range(0, number, sets), number]
    return bounds, {
        segment: [(at, edit) for at, edit in edits if begin <= at < end]
        for segment, (begin, end) in enumerate(zip(bounds, bounds[1:]))
    }


class Plan(NamedTuple):
    """A block that is ready to go."""

    call: Callable[[Any], Any]
    # The arguments of the untimed calls.
    before: Any
    # The arguments of the timed calls, in order.
    rows: list[Any]
    # The edits of each segment.
    edits: dict[int, list[tuple[int, int]]]
    # Where segments begin and end.
    bounds: list[int]
    # Which outputs are kept; all where it is absent.
    keep: bytearray | None


class Station:
    """Contenders of one case and the sets that they are called with."""

    def __init__(self, _torch: ModuleType, case: Case, seed: int) -> None:
        self.case = case
        self.sets = case.make_sets(self.count_of(case))
        self.untimed = case.make_sets(1)
        self.seed: int | None = None
        self.refill(seed)
        self.rotation = case.rotation(self.sets)
        self.warming = case.rotation(self.untimed)
        self.calls: dict[str, Callable[[Any], Any]] = {}
        self.arguments: dict[str, Rotation] = {}
        self.parts: dict[str, float] = {}
        self.name: str | None = None
        self.plan: Plan | None = None
        self.results: dict[int, Any] | None = None

    @staticmethod
    def count_of(case: Case) -> int:
        """How many sets a case has."""
        size = max(1, case.bytes)
        return max(2, min(SETS, SET_BYTES // size), min(MOST_SETS, SMALL_BYTES // size))

    @classmethod
    def memory(cls, _torch: ModuleType, case: Case, _contenders: int) -> tuple[int, int | None]:
        """The memory of a case, and what is free: two processes hold it beside each other, with copies for the clocks."""
        sets = cls.count_of(case)
        try:
            with open("/proc/meminfo", encoding="ascii") as table:
                free = next(int(row.split()[1]) << 10 for row in table if row.startswith("MemAvailable"))
        except (OSError, ValueError, StopIteration):
            free = None
        # The sets, their pools, and float64 and temporaries of the reference.
        return case.bytes * (sets + 3) + 16 * case.bytes, free

    def enlist(self, name: str, call: Callable[[Any], Any], arguments: Rotation | None = None) -> None:
        """Adds a contender and warms it; `arguments` rotate beside the sets where they are not the sets."""
        arguments = arguments or self.rotation
        for _ in range(3):
            call(*arguments.fresh(0, 1))
        self.calls[name], self.arguments[name] = call, arguments

    def refill(self, seed: int) -> None:
        """Gives every set the contents of a seed."""
        if seed != self.seed:
            # The number of the untimed set is one that no timed set has.
            for number, chosen in enumerate([*self.sets, *self.untimed]):
                self.case.fill(chosen, seed, number)
            self.seed = seed

    def calibrate(self) -> tuple[list[Sizes], list[LeftOut]]:
        """Calls in a sample of each contender: as many as last SAMPLE_NS."""
        calls: dict[str, int] = {}
        for name in self.calls:
            number, most = 1, self.most(name)
            while (took := min(self.trial(name, number) for _ in range(3))) < SAMPLE_NS and number < most:
                number = int(min(most, max(number + 1, math.ceil(number * min(10, 1.1 * SAMPLE_NS / max(took, 1))))))
            calls[name] = number
        most = {name: int(min(self.most(name), 1 << 20)) for name in self.calls}
        return [Sizes(regime="host", calls=calls, most=most, queued={})], []

    def most(self, name: str) -> float:
        """The most calls of a block, but for the untimed one."""
        return self.arguments[name].most - 1

    def trial(self, name: str, number: int) -> float:
        """Nanoseconds of a block of calls."""
        seed = self.seed or 0
        self.ready(
            BlockRequest(contender=name, regime="host", calls=number, first=0, seed=seed, edits=[], aim="sample")
        )
        return self.go()[1] * 1e9

    def ready(self, request: BlockRequest) -> None:
        """Everything of a block that is not timed. A block without calls shows what the rest costs."""
        name, number, first = request.contender, request.calls, request.first
        if name is None:
            raise ValueError("a block on the processor has a contender")
        self.results, self.name = None, name
        self.refill(request.seed)
        rotation = self.arguments[name]
        rotation.reserve(number)
        plan = rotation.fresh(first, number)
        (before,) = (self.warming if rotation is self.rotation else rotation).fresh(0, 1)
        bounds, edits = rounds(len(rotation), number, request.edits if rotation is self.rotation else [])
        wanted = min(number, max(FEWEST_KEPT, KEPT_BYTES // max(1, self.case.output_bytes)))
        if request.aim != "sample":
            wanted = min(number, 1)
        if wanted == number:
            keep = None
        else:
            keep = bytearray(number)
            for at in random.sample(range(number), wanted):
                keep[at] = 1
        self.plan = Plan(self.calls[name], before, plan, edits, bounds, keep)
        # Contenders bring thread pools of their own (torch's, that of compiled code), whose threads spin for a while
        # after their work and would take processors from the next contender.
        time.sleep(PAUSE)
        self.calls[name](before)

    def go(self) -> tuple[float, float, list[int] | None]:
        """The timed calls; seconds by this process's clock, twice: a processor has no other."""
        call, before, plan, edits, bounds, keep = self.planned()
        # Not timed: this contender's own threads are awake, and what the others left in the caches is gone.
        call(before)
        took = 0
        results: dict[int, Any] = {}
        for segment, (begin, end) in enumerate(zip(bounds, bounds[1:])):
            if segment:
                for at, edit in edits[segment]:
                    self.case.edit(plan[at], self.seed or 0, edit)
                # An edit is work of another kind, after which the next call is slower.
                call(before)
            part = plan[begin:end]
            if keep is None:
                start = clock()
                kept = [call(inputs) for inputs in part]
                took += clock() - start
                results.update(enumerate(kept, begin))
            else:
                at = begin
                start = clock()
                for inputs in part:
                    result = call(inputs)
                    if keep[at]:
                        results[at] = result
                    at += 1
                took += clock() - start
        self.results = results
        if len(bounds) > 2:
            # The sets hold other contents than their seed says.
            self.seed = None
        return took * 1e-9, took * 1e-9, None if keep is None else sorted(results)

    def planned(self) -> Plan:
        """The block that was made ready last."""
        if self.plan is None:
            raise ValueError("no block is ready")
        return self.plan

    def kept(self, place: int) -> tuple[list[Any], list[Any]]:
        """Arguments and outputs of one call of the last block."""
        inputs = self.planned().rows[place]
        return inputs, self.case.results((self.results or {})[place], inputs)
