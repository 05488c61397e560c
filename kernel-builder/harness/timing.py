"""The stop-watch on the host: candidate and baselines, interleaved, in one process.

Owns: warm-up, rotation of inputs, blocks, the clock. Never: decides when there are enough samples; the judge does.
"""

import os
import random
import time
import traceback

import torch

from candidate import load_package
from channel import Channel, environment, wait_for
from oracle import load_reference
from tensors import append_bytes, as_tensor, read_payloads

# One sample lasts at least this long, so that the clock's own cost and resolution do not count.
SAMPLE_NS = 1_000_000
MOST_CALLS = 4096


def clone_of(bytes_moved: int, device: str):
    """A copy that moves as many bytes as the operation: half of them read, half of them written."""
    source = torch.ones(max(bytes_moved // 2, 1), dtype=torch.uint8, device=device)
    return lambda *_, **__: source.clone()


def contenders(job: dict, case: dict, package, channel: Channel) -> dict:
    """What is timed, by name; a baseline that does not work here is told and left out."""
    reference = load_reference(job["reference"], job["eager"])
    found = {"candidate": getattr(package, job["function"])}
    for name in job["baselines"]:
        if name == "eager":
            found[name] = reference
        elif name == "fused" and job["fused"]:
            found[name] = load_reference(job["reference"], job["fused"])
        elif name == "compile":
            torch._dynamo.reset()
            found[name] = torch.compile(reference, dynamic=False)
    found["copy"] = clone_of(case["bytes_moved"], job["device"])
    return found


def working(found: dict, case: dict, arguments: list, channel: Channel) -> dict:
    """The contenders that return from a first call; it also compiles what compiles late."""
    good = {}
    for name, function in found.items():
        try:
            with torch.no_grad():
                function(*arguments, **case["scalars"])
            good[name] = function
        except Exception as error:  # a baseline that fails is left out; a candidate that fails is told the same way
            text = "".join(traceback.format_exception_only(error)).strip().splitlines()
            channel.send("unavailable", case=case["place"], contender=name, error=text[0] if text else "")
    return good


def calls_for(function, sets: list, scalars: dict) -> int:
    """How many calls make one sample."""
    count = 1
    while count < MOST_CALLS:
        start = time.perf_counter_ns()
        for turn in range(count):
            function(*sets[turn % len(sets)], **scalars)
        if time.perf_counter_ns() - start >= SAMPLE_NS:
            break
        count *= 2
    return count


class HostClock:
    """Times calls on the processor with the monotonic clock."""

    regime = "host"

    def __init__(self, job: dict) -> None:
        self.threads = job["threads"]

    def prepare(self, functions: dict, sets: list, scalars: dict) -> None:
        """Warm up, and find how many calls make one sample for each contender."""
        self.sets = sets
        self.scalars = scalars
        self.counts = {}
        self.turn = 0
        for name, function in functions.items():
            calls_for(function, sets, scalars)
            self.counts[name] = calls_for(function, sets, scalars)

    def sample(self, name: str, function) -> float:
        """Seconds for one call, averaged over the calls of one sample."""
        # A contender may not change the rules for the next one.
        torch.set_num_threads(self.threads)
        count, sets, scalars, first = self.counts[name], self.sets, self.scalars, self.turn
        self.turn += count
        start = time.perf_counter_ns()
        for turn in range(first, first + count):
            function(*sets[turn % len(sets)], **scalars)
        return (time.perf_counter_ns() - start) / count / 1e9

    def last_set(self) -> int:
        """The place of the set that the last timed call used."""
        return (self.turn - 1) % len(self.sets)


def load_sets(job: dict, case: dict) -> list[list[torch.Tensor]]:
    """The input sets of a case, copied until they are larger than the cache; every copy has addresses of its own."""
    loaded = []
    for number in range(len(case["sets"])):
        payloads = read_payloads(os.path.join(job["inputs_dir"], f"{case['place']}-{number}.bin"), case["inputs"])
        loaded.append([as_tensor(payload, tensor) for payload, tensor in zip(payloads, case["inputs"])])
    return [
        [tensor.to(job["device"], copy=True) for tensor in loaded[copy % len(loaded)]] for copy in range(case["copies"])
    ]


def dump_timed(job: dict, case: dict, clock, functions: dict, sets: list, number: int) -> int:
    """Time the candidate once more and keep what that very call returned; the judge compares it later."""
    clock.turn += 1
    place = clock.last_set()
    output = functions["candidate"](*sets[place], **case["scalars"])
    outputs = list(output) if isinstance(output, (tuple, list)) else [output]
    with open(os.path.join(job["dumps_dir"], f"{case['place']}-{number}.bin"), "wb") as file:
        for tensor in outputs:
            append_bytes(file, tensor)
    return place % len(case["sets"])


def time_case(job: dict, case: dict, functions: dict, clock, channel: Channel) -> None:
    """Rounds of blocks until the judge has enough; each block holds every contender once, in a new order."""
    sets = load_sets(job, case)
    order = random.Random(job["order_seed"])
    with torch.no_grad():
        functions = working(functions, case, sets[0], channel)
        if "candidate" not in functions:
            return
        clock.prepare(functions, sets, case["scalars"])
        names = list(functions)
        number = 0
        while True:
            blocks = []
            until = time.monotonic() + job["round_seconds"]
            while time.monotonic() < until or len(blocks) < job["round_blocks"]:
                order.shuffle(names)
                # There and back: a drift within the block is the same for all.
                there = {name: clock.sample(name, functions[name]) for name in names}
                back = {name: clock.sample(name, functions[name]) for name in reversed(names)}
                blocks.append({name: (there[name] + back[name]) / 2 for name in names})
            kept = dump_timed(job, case, clock, functions, sets, number)
            channel.send("round", case=case["place"], regime=clock.regime, blocks=blocks, dump=number, set=kept)
            answer = os.path.join(job["answers_dir"], f"{case['place']}-{clock.regime}-{number}")
            number += 1
            if wait_for(answer) != "more":
                return


def clocks_for(job: dict) -> list:
    """The regimes of the device."""
    if job["device"] == "cuda":
        import cuda_timing

        return [cuda_timing.EventClock(job), cuda_timing.GraphClock(job)]
    return [HostClock(job)]


def play(job: dict, channel: Channel) -> None:
    """Time every case of the job."""
    torch.set_num_threads(job["threads"])
    package = load_package(job["package"])
    facts = environment(job["device"])
    if wait_for(job["gate"]) != "go":
        return
    channel.send("environment", **facts)
    for case in job["cases"]:
        channel.send("begin", case=case["place"])
        functions = contenders(job, case, package, channel)
        for clock in clocks_for(job):
            time_case(job, case, functions, clock, channel)
    channel.send("done")
