"""A whole model with kernels and without: how long its phases take, and how far its results are off.

Owns: the order of the work, and the record. Never: builds or judges a package; the program that starts this one does.

The argument is a job, as job.py reads it. Standard output has an object on each line, as said.py writes them. The record has
a line for each phase; what it has of the same model and the same packages is not measured again.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

if site := os.environ.get("KERNELWRIGHT_SITE"):
    import site as packages_of_python

    packages_of_python.addsitedir(site)
sys.path.insert(0, str(Path(__file__).parent))

import torch

from compare import compared
from job import Job, digest
from model import subject
from packages import Switch, load
from phases import phases
from said import hand_over, refuse, tell
from times import measured


class Record:
    """The lines of a file, of which those of the same subject are known."""

    def __init__(self, path: Path, about: dict[str, Any], fresh: bool) -> None:
        self.path, self.about = path, about
        self.lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        read = [json.loads(line) for line in self.lines]
        same = [line for line in read if all(line.get(key) == value for key, value in about.items())]
        self.known: dict[str, dict[str, Any]] = {} if fresh else {line["phase"]: line for line in same}

    def add(self, line: dict[str, Any]) -> dict[str, Any]:
        """Writes a line, so that the file is whole at any time."""
        whole = {**line, **self.about, "date": time.strftime("%Y-%m-%d")}
        self.lines.append(json.dumps(whole))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(self.path.name + ".part")
        unfinished.write_text("".join(line + "\n" for line in self.lines), encoding="utf-8")
        unfinished.replace(self.path)
        return whole


def run(job: Job) -> None:
    """Hands over the line of every phase."""
    folders = {name(Path(folder)): Path(folder) for folder in job.packages}
    packages = {of: load(str(folder), number) for number, (of, folder) in enumerate(folders.items())}
    tell(f"making {job.model}")
    model = subject(job)
    tell("comparing its modules with the packages")
    switch = Switch(model.module, packages)
    for package, report in switch.report.items():
        tell(f"{package}: {report}")
    if not switch.own:
        refuse(
            "no module of the model computes what the packages do", "the reasons are above, one for each kind of module"
        )
    about: dict[str, Any] = {
        "model": job.model,
        "small": job.small,
        "packages": {of: digest(folder) for of, folder in folders.items()},
        "replaced": len(switch.own),
        "dtype": job.dtype,
        "device": torch.cuda.get_device_name() if job.device == "cuda" else "cpu",
        "torch": torch.__version__,
        "rounds": job.rounds,
    }
    record = Record(Path(job.record), about, job.fresh)

    def line_of(title: str, make: Any) -> None:
        known = record.known.get(title)
        hand_over(known if known is not None else record.add(make()), cached=known is not None)

    line_of("numbers", lambda: compared(model, switch, job))
    for phase in phases(model, job):
        if job.phases and phase.title.split()[0] not in job.phases:
            continue
        line_of(phase.title, lambda phase=phase: measured(switch, phase, job))
        gc.collect()
        if job.device == "cuda":
            torch.cuda.empty_cache()


def name(folder: Path) -> str:
    """A package by its project, else by its folder."""
    parents = [one.name for one in folder.parents]
    return (
        parents[parents.index(".kernelwright") + 1]
        if ".kernelwright" in parents
        else f"{folder.parent.name}/{folder.name}"
    )


if __name__ == "__main__":
    run(Job.read(sys.argv[1]))
