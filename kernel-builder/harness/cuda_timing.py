"""The stop-watches on an NVIDIA GPU: single calls with a cold cache, and graphs of many calls.

Owns: cache flushing, spins, events, graphs. Never: decides when there are enough samples.
"""

import time

import torch

GRAPH_CALLS = 20
# Enqueued before a timed call, so that the cost of launching it is hidden behind work that is not timed.
SPIN_CYCLES = 400_000


class EventClock:
    """One call between two events; the cache holds nothing of its inputs and no dirty line."""

    regime = "events"

    def __init__(self, job: dict) -> None:
        properties = torch.cuda.get_device_properties(0)
        self.flush = torch.empty(max(4 * properties.L2_cache_size, 64 << 20) // 4, dtype=torch.int32, device="cuda")
        self.sink = torch.zeros((), dtype=torch.int64, device="cuda")

    def prepare(self, functions: dict, sets: list, scalars: dict) -> None:
        """Warm up."""
        self.sets, self.scalars, self.turn = sets, scalars, 0
        for function in functions.values():
            for turn in range(3):
                function(*sets[turn % len(sets)], **scalars)
        torch.cuda.synchronize()

    def sample(self, name: str, function) -> float:
        """Seconds on the device for one call; refused when the device was busy for much longer than the events say."""
        arguments = self.sets[self.turn % len(self.sets)]
        self.turn += 1
        # Writing leaves dirty lines, whose write-back would be charged to the call; reading replaces them.
        self.flush.zero_()
        self.sink += self.flush.sum()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(SPIN_CYCLES)
        start.record()
        output = function(*arguments, **self.scalars)
        end.record()
        end.synchronize()
        before = time.perf_counter_ns()
        torch.cuda.synchronize()
        late = (time.perf_counter_ns() - before) / 1e9
        del output
        seconds = start.elapsed_time(end) / 1e3
        # Work on a stream that the events do not see is still running when they are done.
        return seconds if late < 50e-6 else seconds + late

    def last_set(self) -> int:
        """The place of the set that the last timed call used."""
        return (self.turn - 1) % len(self.sets)


class GraphClock:
    """A graph of many calls over input sets larger than the cache: launch costs as in a captured model."""

    regime = "graph"

    def __init__(self, job: dict) -> None:
        self.graphs: dict = {}

    def prepare(self, functions: dict, sets: list, scalars: dict) -> None:
        """Capture one graph for each contender; its outputs stay alive, so each call has an output of its own."""
        self.sets, self.turn = sets, 0
        self.graphs.clear()
        side = torch.cuda.Stream()
        for name, function in functions.items():
            with torch.cuda.stream(side):
                for turn in range(3):
                    function(*sets[turn % len(sets)], **scalars)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                outputs = [function(*sets[turn % len(sets)], **scalars) for turn in range(GRAPH_CALLS)]
            graph.replay()
            torch.cuda.synchronize()
            self.graphs[name] = (graph, outputs)

    def sample(self, name: str, function) -> float:
        """Seconds on the device for one call of the graph."""
        graph, _ = self.graphs[name]
        self.turn += GRAPH_CALLS
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(SPIN_CYCLES)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        before = time.perf_counter_ns()
        torch.cuda.synchronize()
        late = (time.perf_counter_ns() - before) / 1e9
        seconds = start.elapsed_time(end) / 1e3
        return (seconds if late < 50e-6 else seconds + late) / GRAPH_CALLS

    def last_set(self) -> int:
        """The place of the set that the last timed call used."""
        return (self.turn - 1) % len(self.sets)
