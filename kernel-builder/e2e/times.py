"""Times the phases of a model: all contenders take turns in rounds.

Owns: samples, ratios and their intervals, the share of what is replaced. Never: makes an input.
"""

from __future__ import annotations

import importlib
import random
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from said import tell

if TYPE_CHECKING:
    from collections.abc import Generator

    from job import Job
    from packages import Switch
    from phases import Phase

#: What each contender is compared with.
BASES = {
    "kernels": "eager",
    "compile": "eager",
    "compile + kernels": "compile",
    "compile-max": "eager",
    "compile-max + kernels": "compile-max",
    "graph + kernels": "graph",
}
#: Modes of torch.compile. CUDA graphs would keep the inputs of a phase.
MODES = {"compile": None, "compile-max": "max-autotune-no-cudagraphs"}
#: A sample calls the model until this many seconds are over.
SAMPLE = 0.05
#: Medians of so many draws of the rounds give an interval.
DRAWS = 2000

#: A call, and whether the packages are in the model.
Contender = tuple[Callable[[], Any], bool]


def synchronize(job: Job) -> None:
    """Waits for the device."""
    if job.device == "cuda":
        torch.cuda.synchronize()


def seconds(call: Callable[[], Any], job: Job) -> float:
    """Seconds of a call, the mean of those of a sample."""
    synchronize(job)
    begun, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begun < SAMPLE:
        call()
        synchronize(job)
        calls += 1
    return (time.perf_counter() - begun) / calls


def resampled(ratios: list[float]) -> dict[str, float]:
    """The median of ratios, with the middle 95% of the medians of resampled rounds."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    low, high = medians[DRAWS // 40], medians[-1 - DRAWS // 40]
    return {"ratio": round(statistics.median(ratios), 4), "low": round(low, 4), "high": round(high, 4)}


def in_a_line(error: Exception) -> str:
    """An error in a few words."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def start_compiler() -> None:
    """Forgets what was compiled for other phases, and lets nothing fall back to eager PyTorch without a word."""
    dynamo: Any = importlib.import_module("torch._dynamo")
    dynamo.reset()
    dynamo.config.recompile_limit = 64
    dynamo.config.fail_on_recompile_limit_hit = True


def contenders(switch: Switch, phase: Phase, job: Job, failed: dict[str, str]) -> dict[str, Contender]:
    """The calls of a phase by name; `failed` gets what cannot be captured."""
    run, model = phase.make(), switch.model
    if job.compile or job.search:
        start_compiler()
    found: dict[str, Contender] = {"eager": (lambda: run(model), False), "kernels": (lambda: run(model), True)}
    for title, wanted in (("compile", job.compile), ("compile-max", job.search)):
        if wanted:
            compiled = torch.compile(model, mode=MODES[title])
            found[title] = (lambda compiled=compiled: run(compiled), False)
            found[f"{title} + kernels"] = (lambda compiled=compiled: run(compiled), True)
    if phase.graph is not None and job.device == "cuda":
        for title, on in (("graph", False), ("graph + kernels", True)):
            switch.put(on)
            try:
                replay = phase.graph()
            except Exception as error:  # not every version of a library can be captured
                failed[title] = in_a_line(error)
                continue
            found[title] = (lambda replay=replay: replay(model), on)
    return found


@contextmanager
def gradients(needed: bool) -> Generator[None]:
    """With or without autograd."""
    with torch.enable_grad() if needed else torch.no_grad():
        yield


def measured(switch: Switch, phase: Phase, job: Job) -> dict[str, Any]:
    """The line of a phase."""
    found: dict[str, list[float]] = {}
    memory: dict[str, int | None] = {}
    failed: dict[str, str] = {}
    with gradients(phase.trains):
        calls = contenders(switch, phase, job, failed)
        for title, (call, on) in list(calls.items()):
            tell(f"{phase.title}: preparing {title}")
            switch.put(on)
            if job.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            try:
                for _ in range(3):
                    call()
                synchronize(job)
            except Exception as error:  # a model that torch.compile does not take is measured without it
                failed[title] = in_a_line(error)
                del calls[title]
                continue
            memory[title] = torch.cuda.max_memory_allocated() if job.device == "cuda" else None
        tell(f"{phase.title}: timing {', '.join(calls)}")
        for _ in range(job.rounds):
            for title, (call, on) in calls.items():
                switch.put(on)
                found.setdefault(title, []).append(seconds(call, job))
        switch.put(on=False)
        # The backward of a module is in no range of its own, so a training step would show its forward alone.
        profiles = job.device == "cuda" and "eager" in calls and not phase.trains
        share = replaced_share(calls["eager"][0], switch, job) if profiles else None
    over: dict[str, dict[str, float]] = {}
    for title, base in BASES.items():
        if title in found and base in found:
            ratios = [before / after for before, after in zip(found[base], found[title], strict=True)]
            over[f"{title} over {base}"] = resampled(ratios)
    return {
        "phase": phase.title,
        "ms": {title: round(statistics.median(values) * 1e3, 4) for title, values in found.items()},
        "over": over,
        "peak_bytes": memory,
        "failed": failed,
        "share": share,
        "at_most": round(1 / (1 - share), 4) if share else None,
    }


def replaced_share(call: Callable[[], Any], switch: Switch, job: Job) -> float | None:
    """The share of GPU time that the code takes which the packages replace."""
    from torch.profiler import ProfilerActivity, profile, record_function

    ranges: list[Any] = []
    handles: list[Any] = []

    def enter(module: Any, arguments: Any) -> None:
        ranges.append(record_function("replaced"))
        ranges[-1].__enter__()

    def leave(module: Any, arguments: Any, result: Any) -> None:
        ranges.pop().__exit__(None, None, None)

    for name in switch.whole:
        module = switch.model.get_submodule(name)
        handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    try:
        with (
            switch.watched(lambda: record_function("replaced")),
            profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace,
        ):
            call()
            synchronize(job)
    finally:
        for one in handles:
            one.remove()
    events: list[Any] = list(trace.key_averages())
    place: Any = importlib.import_module("torch.autograd").DeviceType
    whole = sum(one.self_device_time_total for one in events if one.device_type == place.CUDA)
    part = sum(one.device_time_total for one in events if one.key == "replaced" and one.device_type == place.CPU)
    return round(part / whole, 4) if whole else None
