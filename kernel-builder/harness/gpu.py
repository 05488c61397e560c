"""Blocks of calls on a GPU, in three regimes.

Owns: flushing, CUDA graphs, events, poison. Never: sees a reference.

`graph`: a CUDA graph of one call on each of the sets, which are larger than the L2 cache together, each output at an
address of its own. It is replayed untimed on other contents than those that are timed. `hot`: a graph of calls on one set
with outputs of their own, if all of it stays in half of the cache. `cold`: single calls, each on new contents, after twice
the cache was written and then read, so that neither inputs nor dirty lines of others are there.
A request with edits has contents that differ from those of earlier calls by one element of each set.
What events say is checked from outside by the program's own clock. Blocks with the aim `audit` are for that: many calls or
replays in a row, without outputs, between the same events; with the aim `queue`, calls that are all in the queue before the
first of them begins.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeAlias

from operands import Case, Rotation, hot_calls, tensors
from protocol_bench import Aim, BlockRequest, LeftOut, Regime, Sizes

clock = time.perf_counter
GRAPH_CALLS = 20
# A graph has fewer calls if their tensors would take more bytes.
GRAPH_BYTES = 8 << 30
COLD_CALLS = 4
# What poisoned outputs hold, in turn.
POISON = (math.nan, 1e4)
MOST_REPEATS = 2000
# What a ceiling of other work than the operation's has in a graph: it takes long.
CEILING_CALLS = 4
# To launch a graph takes the host less.
LAUNCH_S = 50e-6
# How long the GPU spins at most, and how many calls are put in the queue meanwhile: it has room for about 1,000 kernels.
SPIN_S = 5e-3
QUEUE_CALLS = 200

# Seconds of a block by the device and by the host, and the places of the outputs that are kept.
Took: TypeAlias = tuple[float, float, list[int]]


def said(error: BaseException) -> str:
    """The first line of an exception."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200] if text else ''}"


def poison(torch: ModuleType, tensor: Any, value: float) -> None:
    """Overwrites an output. PyTorch fills no 8-bit floats, so those get bytes that are NaN in both of their forms."""
    if tensor.dtype.is_floating_point and tensor.element_size() == 1:
        tensor.view(torch.uint8).fill_(0x7F)
    else:
        tensor.fill_(value if tensor.dtype.is_floating_point else 1)


class Persistence:
    """Lines that a kernel asked to stay in the L2 cache are given back, where the driver has the call."""

    def __init__(self) -> None:
        try:
            self._reset = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
        except (AttributeError, OSError):
            self._reset = None

    def reset(self) -> None:
        """Give the lines back."""
        if self._reset is not None:
            self._reset()


class Used(list[Any]):
    """The outputs of a call as they were when its stream had done it."""


class Graphs:
    """The captured graphs of one regime with what their calls returned."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.graphs: dict[str, Any] = {}
        self.results: dict[str, list[Any]] = {}
        self.rows: dict[str, list[Any]] = {}
        self.calls: dict[str, int] = {}


class Station:
    """Contenders of one case and the sets that they are called with."""

    def __init__(self, torch: ModuleType, case: Case, seed: int) -> None:
        self.torch, self.case = torch, case
        self.cache = self.cache_bytes(torch)
        self.sets = case.make_sets(self.count_of(self.cache, case))
        self.seed: int | None = None
        self.refill(seed)
        self.rotation = case.rotation(self.sets)
        self.hot_rotation = case.rotation(self.sets[:1])
        self.calls: dict[str, Callable[[Any], Any]] = {}
        self.arguments: dict[str, Rotation] = {}
        # Seconds that the host takes to launch a call.
        self.launch: dict[str, float] = {}
        self.parts: dict[str, float] = {}
        self.name: str | None = None
        self.flush = torch.empty(2 * self.cache // 4, dtype=torch.float32, device=case.device)
        self.persistence = Persistence()
        # One call for each set: contents that come round within a replay could be answered from memory.
        hot = hot_calls(case, self.cache, GRAPH_CALLS)
        self.captured: dict[Regime, Graphs] = {"graph": Graphs(len(self.sets)), "hot": Graphs(hot)}
        self.turn = 0
        # Seconds of the last replays that were a sample.
        self.lasted = 0.0
        self.plan: Callable[[], Took] | None = None
        # The arguments and results of each call of the last block.
        self.results: dict[int, tuple[Any, Any]] | None = None

    @staticmethod
    def cache_bytes(torch: ModuleType) -> int:
        """The size of the L2 cache."""
        return max(1 << 20, int(torch.cuda.get_device_properties(0).L2_cache_size))

    @staticmethod
    def count_of(cache: int, case: Case) -> int:
        """As many sets as are four times the cache, and as many as a graph has calls: of few sets that come round again the
        cache still has a part, which makes calls faster by half a percent (seen on an H200)."""
        larger = math.ceil(4 * cache / max(1, case.bytes))
        return max(3, min(256, max(larger, min(GRAPH_CALLS, GRAPH_BYTES // max(1, case.bytes)))))

    @classmethod
    def memory(cls, torch: ModuleType, case: Case, contenders: int) -> tuple[int, int]:
        """What this process will hold at most, and what is free on the device."""
        cache = cls.cache_bytes(torch)
        count = cls.count_of(cache, case)
        # Outputs of both graphs, copies of those of single calls, temporaries of a reference in float32 and once in
        # float64, the sets and their pools, what is copied.
        calls = count + hot_calls(case, cache, GRAPH_CALLS)
        held = (contenders * (calls + 2) + COLD_CALLS) * case.output_bytes + (count + 2) * case.input_bytes
        held += (16 + count) * case.bytes
        free, _total = torch.cuda.mem_get_info()
        return held + 2 * cache, free

    def enlist(self, name: str, call: Callable[[Any], Any], arguments: Rotation | None = None) -> None:
        """Adds a contender and warms it; `arguments` rotate beside the sets where they are not the sets."""
        arguments = arguments or self.rotation
        for _ in range(3):
            call(*arguments.fresh(0, 1))
        self.torch.cuda.synchronize()
        start = clock()
        call(*arguments.fresh(0, 1))
        launched = clock() - start
        self.torch.cuda.synchronize()
        self.calls[name], self.arguments[name], self.launch[name] = call, arguments, launched

    def refill(self, seed: int) -> None:
        """Gives every set the contents of a seed."""
        if seed != self.seed:
            for number, chosen in enumerate(self.sets):
                self.case.fill(chosen, seed, number)
            self.seed = seed

    def calibrate(self) -> tuple[list[Sizes], list[LeftOut]]:
        """Captures every contender; the calls of a block for each contender of each regime."""
        skipped: list[LeftOut] = []
        for regime, captured in self.captured.items():
            for name in list(self.calls):
                if not captured.number:
                    reason = "inputs and outputs of two calls do not fit into half of the L2 cache"
                    skipped.append(LeftOut(name=name, regime=regime, reason=reason))
                    continue
                try:
                    self.capture(regime, captured, name)
                except Exception as error:
                    self.torch.cuda.synchronize()
                    reason = f"cannot be captured in a CUDA graph: {said(error)}"
                    skipped.append(LeftOut(name=name, regime=regime, reason=reason))
        # As many as there are sets, at most: each call's inputs are still there afterwards.
        single = min(COLD_CALLS, len(self.sets))
        queued = {name: self.queue_calls(name) for name in self.calls}
        cold = Sizes(
            regime="cold",
            calls=dict.fromkeys(self.calls, single),
            most=dict.fromkeys(self.calls, MOST_REPEATS),
            queued=queued,
        )
        in_graphs = [
            Sizes(
                regime=regime,
                calls=dict(captured.calls),
                most=dict.fromkeys(captured.calls, MOST_REPEATS),
                queued={},
            )
            for regime, captured in self.captured.items()
        ]
        return [cold, *in_graphs], skipped

    def arguments_in(self, regime: Regime, name: str) -> Rotation:
        """Hot calls have one set; what does not rotate over the sets has its own."""
        if regime == "hot" and self.arguments[name] is self.rotation:
            return self.hot_rotation
        return self.arguments[name]

    def capture(self, regime: Regime, captured: Graphs, name: str) -> None:
        """Captures the calls of a contender in a graph."""
        torch, call = self.torch, self.calls[name]
        number = min(captured.number, CEILING_CALLS) if name in self.parts else captured.number
        arguments = self.arguments_in(regime, name)
        rows = arguments.fresh(0, number)
        if regime == "hot" and arguments is not self.hot_rotation:
            rows = rows[:1] * number
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            call(rows[0])
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        results: list[Any] = []
        with torch.cuda.graph(graph):
            for row in rows:
                results.append(call(row))
        captured.graphs[name] = graph
        captured.results[name] = results
        captured.rows[name], captured.calls[name] = rows, number

    def ready(self, request: BlockRequest) -> None:
        """Everything of a block that is not timed."""
        torch, name, regime = self.torch, request.contender, request.regime
        self.results, self.name = None, name
        self.turn += 1
        if name is None or regime != "graph" or request.aim != "sample":
            self.refill(request.seed)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        if name is None:
            # As long a spin as what it is compared with has.
            launch = self.spin(LAUNCH_S)
            spin: dict[Aim, int] = {
                "queue": self.spin(SPIN_S),
                "sample": launch,
                "audit": 0 if regime == "cold" else launch,
            }
            # As long as what it is compared with, too: a processor that waited longer may take longer to wake.
            idle = self.cycles(self.lasted) if request.aim == "sample" and regime != "cold" else 0
            self.plan = lambda: self.timed(
                events, lambda: self.torch.cuda._sleep(idle) if idle else None, spin[request.aim]
            )
        elif request.aim == "queue":
            self.plan = self.in_a_row(events, name, request.calls, self.spin(SPIN_S))
        elif request.aim == "audit" and regime == "cold":
            self.plan = self.in_a_row(events, name, request.calls, 0)
        elif regime == "cold":
            self.plan = lambda: self.cold(name, request)
        else:
            captured = self.captured[regime]
            number = captured.calls[name]
            graph, repeats = captured.graphs[name], max(1, request.calls // number)
            if request.edits:
                self.refill(request.seed)
            self.arguments_in(regime, name).fresh(0, number)
            # Warms up, in `graph` on contents that are not timed: those of the block before, or those without the edits.
            graph.replay()
            for result in captured.results[name]:
                for output in tensors(result):
                    poison(torch, output, POISON[self.turn % len(POISON)])
            if regime == "graph":
                self.renew(request)
            self.arguments_in(regime, name).fresh(0, number)
            if regime == "graph":
                self.clean()
            self.plan = lambda: self.replay(events, regime, name, graph, repeats)
        self.persistence.reset()
        torch.cuda.synchronize()

    def go(self) -> Took:
        """The timed calls."""
        if self.plan is None:
            raise ValueError("no block is ready")
        return self.plan()

    def renew(self, request: BlockRequest) -> None:
        """Puts the contents in place that are timed: those of the request, edited where it says so."""
        self.refill(request.seed)
        for at, edit in request.edits:
            self.case.edit(self.sets[at % len(self.sets)], request.seed, edit)
        if request.edits:
            # The sets hold other contents than their seed says.
            self.seed = None

    def clean(self) -> None:
        """Leaves clean lines in the cache that belong to no call: what was just written is neither there nor dirty."""
        self.flush.fill_(float(self.turn))
        self.flush.sum()

    def spin(self, launch_seconds: float) -> int:
        """GPU cycles that hide the time the host takes to launch: twice of it and 50 us, as launches vary."""
        return self.cycles(2 * launch_seconds + 50e-6)

    @staticmethod
    def cycles(seconds: float) -> int:
        """GPU cycles of a time at 2 GHz, of at most the longest spin."""
        return int(2e9 * min(SPIN_S, max(0.0, seconds)))

    def queue_calls(self, name: str) -> int:
        """Calls that the host puts in the queue within half of the longest spin."""
        most = min(QUEUE_CALLS, self.arguments[name].most)
        return max(1, int(min(most, SPIN_S / 2 / max(self.launch[name], 1e-6))))

    def timed(self, events: list[Any], work: Callable[[], None], spin: int) -> Took:
        """Seconds between the events round `work`, and by this process's clock round all of it but the spin."""
        begin = self.torch.cuda.Event(enable_timing=True)
        start = clock()
        begin.record()
        if spin:
            self.torch.cuda._sleep(spin)
        events[0].record()
        work()
        events[1].record()
        self.torch.cuda.synchronize()
        took, spun = clock() - start, begin.elapsed_time(events[0]) * 1e-3
        return events[0].elapsed_time(events[1]) * 1e-3, max(0.0, took - spun), []

    def replay(self, events: list[Any], regime: Regime, name: str, graph: Any, repeats: int) -> Took:
        """The timed replays of a graph."""

        def work() -> None:
            for _ in range(repeats):
                graph.replay()

        device, inside, _ = self.timed(events, work, self.spin(LAUNCH_S))
        if repeats == 1:
            self.lasted = device
        captured = self.captured[regime]
        self.results = dict(enumerate(zip(captured.rows[name], captured.results[name])))
        return device, inside, sorted(self.results)

    def in_a_row(self, events: list[Any], name: str, calls: int, spin: int) -> Callable[[], Took]:
        """Calls in a row as a caller makes them: what works beside the stream ends after the second event."""
        call, rows = self.calls[name], self.arguments[name].fresh(0, int(min(calls, self.arguments[name].most)))

        def work() -> None:
            for row in rows:
                call(row)

        return lambda: self.timed(events, work, spin)

    def cold(self, name: str, request: BlockRequest) -> Took:
        """Single calls. The GPU spins while the host launches, then inputs are put in place, then the cache is flushed:
        a call that does not wait for its stream finds other inputs. What it leaves is copied on the caller's stream, as who
        uses it would: what is not there yet is not copied."""
        torch, call, arguments, number = self.torch, self.calls[name], self.arguments[name], request.calls
        rows = arguments.fresh(request.first, number)
        rotating = arguments is self.rotation
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(number)]
        # The contents of all calls are the same but for one element, or new for each.
        edits = dict(request.edits)
        spin = self.spin(self.launch[name] + (400e-6 if edits else 200e-6))
        results: dict[int, tuple[Any, Any]] = {}
        start = clock()
        for at, (row, (before, after)) in enumerate(zip(rows, events)):
            if rotating:
                self.poison_allocator()
            torch.cuda._sleep(spin)
            if rotating:
                # A number that no set has, and without edits no other call of this block.
                self.case.fill(row, request.seed, len(self.sets) + (0 if edits else at))
                if at in edits:
                    self.case.edit(row, request.seed, edits[at])
            self.flush.fill_(float(at + self.turn))
            self.flush.sum()
            before.record()
            result = call(row)
            after.record()
            results[at] = (row, self.used(row, result))
        torch.cuda.synchronize()
        inside = clock() - start
        device = sum(before.elapsed_time(after) * 1e-3 for before, after in events)
        self.results = results
        # The sets hold other contents than their seed says.
        self.seed = None
        return device, inside, sorted(self.results)

    def poison_allocator(self) -> None:
        """Leaves poisoned blocks of the outputs' sizes for the next allocations; best effort."""
        blocks = [
            self.torch.full(
                (max(1, math.prod(output.shape)) * self.case.dtypes[output.dtype].itemsize,),
                0xFF,
                dtype=self.torch.uint8,
                device=self.case.device,
            )
            for output in self.case.outputs
            if output.inplace is None
        ]
        del blocks

    def used(self, row: Sequence[Any], result: Any) -> Used:
        """Copies of the outputs, in the queue of the caller's stream; what is no tensor is left as it is."""
        plain = (self.torch.Tensor, self.torch.nn.Parameter)
        return Used(one.clone() if type(one) in plain else one for one in self.case.results(result, row))

    def suspects(self) -> list[int]:
        """Places of the last block's calls that left nothing but the poison that was there before."""
        plain = (self.torch.Tensor, self.torch.nn.Parameter)
        found: dict[int, Any] = {}
        for place, (_row, result) in (self.results or {}).items():
            fresh = isinstance(result, Used)
            outputs = [one for one in (result if fresh else tensors(result)) if type(one) in plain and one.numel()]
            if outputs:
                found[place] = self.torch.stack([self.is_poison(one, fresh) for one in outputs]).all()
        if not found:
            return []
        flags = self.torch.stack(list(found.values())).tolist()
        return [place for place, flag in zip(found, flags) if flag]

    def is_poison(self, tensor: Any, fresh: bool) -> Any:
        """Whether a tensor holds what `poison` left, or, where it was allocated in the block, `poison_allocator`."""
        eight_bits = tensor.dtype.is_floating_point and tensor.element_size() == 1
        if fresh or eight_bits:
            return (tensor.detach().reshape(-1).view(self.torch.uint8) == (0xFF if fresh else 0x7F)).all()
        value = POISON[self.turn % len(POISON)] if tensor.dtype.is_floating_point else 1
        # Both as the dtype rounds it: beside a bare number a comparison may have more digits.
        return (tensor.isnan() if math.isnan(value) else tensor == tensor.new_tensor(value)).all()

    def kept(self, place: int) -> tuple[Any, list[Any]]:
        """Arguments and outputs of one call of the last block."""
        row, result = (self.results or {})[place]
        return row, list(result) if isinstance(result, Used) else self.case.results(result, row)
