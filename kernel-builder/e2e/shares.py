"""The parts of a model that kernels could compute: their share of a phase's time, and what they could gain at most.

Owns: the measurement. Never: creates a project; the program that starts this one does.

The argument is a job, as job.py reads it. Standard output has an object on each line, as said.py writes them: one for each
part, those with the largest gain first, then one for the whole.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if site := os.environ.get("KERNELWRIGHT_SITE"):
    import site as packages_of_python

    packages_of_python.addsitedir(site)
sys.path.insert(0, str(Path(__file__).parent))

import torch

from job import Job
from model import subject
from part_file import alike, described, own_name, text
from parts import Part, Parts
from phases import phases
from said import hand_over, refuse, tell
from times import gradients, synchronize

if TYPE_CHECKING:
    from collections.abc import Callable

#: A part that could save less of the time than this is not worth a project.
LEAST_GAIN = 0.01


def run(job: Job) -> None:
    """Hands over a line for each part and one for the whole."""
    tell(f"making {job.model}")
    model = subject(job)
    wanted = [one for one in phases(model, job) if not job.phases or one.title.split()[0] in job.phases]
    if not wanted:
        names = ", ".join(dict.fromkeys(one.title.split()[0] for one in phases(model, job)))
        refuse(f"{job.model} has no such phase", f"it has {names}")
    phase = wanted[0]
    call = phase.make()
    with gradients(phase.trains):
        tell(f"{phase.title}: looking for parts")
        first = Parts(model.module)
        with first:
            call(model.module)
        # Again, without the steps whose tensors turned out to be small.
        parts = Parts(model.module, first.left)
        with parts:
            call(model.module)
            found = [part for part in parts.found if part.calls]
            parts.counts = False
            call(model.module)
            synchronize(job)
            tell(f"{phase.title}: profiling")
            shares = profiled(lambda: call(model.module), found, job)
    groups: dict[str, list[Part]] = {}
    for part in found:
        groups.setdefault(alike(part), []).append(part)
    lines = sorted(((line(group, shares), group[0]) for group in groups.values()), key=lambda both: -both[0]["gain"])
    taken: set[str] = set()
    for known, part in lines:
        name = own_name(part.name, taken)
        file = text(part, name, f"{known['where']}, as it is in {job.model}.") if known["gain"] >= LEAST_GAIN else None
        refused = "it takes numbers or tensors of integers, or calls more than PyTorch" if file is None else None
        worth = known["gain"] >= LEAST_GAIN
        hand_over({"phase": name, **known, "file": file, "refused": refused if worth else None}, cached=False)
    gain = sum(known["gain"] for known, _ in lines)
    whole = {
        "model": job.model,
        "small": job.small,
        "dtype": job.dtype,
        "device": torch.cuda.get_device_name() if job.device == "cuda" else "cpu",
        "torch": torch.__version__,
        "share": round(sum(known["share"] for known, _ in lines), 4),
        "at_most": round(1 / (1 - gain), 3) if gain < 1 else None,
    }
    hand_over({"phase": phase.title, **whole}, cached=False)


def line(parts: list[Part], shares: dict[int, float]) -> dict[str, Any]:
    """The figures of parts that compute the same. A kernel moves only the tensors that go in and out; the gain is the time of
    all other bytes."""
    gain = sum(shares[part.number] * (1 - min(part.least / part.moved, 1)) for part in parts if part.moved)
    return {
        "where": described(parts),
        "calls": sum(part.calls for part in parts),
        "share": round(sum(shares[part.number] for part in parts), 4),
        "moved": sum(part.moved for part in parts),
        "least": sum(part.least for part in parts),
        "gain": round(gain, 4),
        "at_most": round(1 / (1 - gain), 3),
    }


def profiled(call: Callable[[], Any], parts: list[Part], job: Job) -> dict[int, float]:
    """The share of the time of each part: of the GPU's, or of the processor's if the model runs there."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = job.device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as trace:
        call()
        synchronize(job)
    events: list[Any] = list(trace.key_averages())
    place: Any = importlib.import_module("torch.autograd").DeviceType
    if on_gpu:
        whole = sum(one.self_device_time_total for one in events if one.device_type == place.CUDA)
        times = {one.key: one.device_time_total for one in events if one.device_type == place.CPU}
    else:
        whole = sum(one.self_cpu_time_total for one in events)
        times = {one.key: one.cpu_time_total for one in events}
    return {part.number: times.get(part.key(), 0) / whole if whole else 0.0 for part in parts}


if __name__ == "__main__":
    run(Job.read(sys.argv[1]))
