"""What packages replace in a model, and how far its results are off with them.

Owns: that report. Never: measures a time.

The argument is a job, as job.py reads it. Standard output has an object on each line, as said.py writes them: one for each
package, then one that compares results with those in float32, as e2e.py has it.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

if site := os.environ.get("KERNELWRIGHT_SITE"):
    import site as packages_of_python

    packages_of_python.addsitedir(site)
sys.path.insert(0, str(Path(__file__).parent))

import torch

from compare import compared
from e2e import name
from job import Job
from model import subject
from packages import NO_INJECT, Switch, alike, load
from said import hand_over, tell


def run(job: Job) -> None:
    """Hands over the line of every package, and that of the numbers if something was replaced."""
    folders = [Path(folder) for folder in job.packages]
    packages = {name(folder): load(str(folder), number) for number, folder in enumerate(folders)}
    tell(f"making {job.model}")
    model = subject(job)
    tell("comparing its modules with the packages")
    switch = Switch(model.module, packages)
    for package, injection in switch.injections.items():
        replaced: dict[str, str] = {} if injection is None else injection.replaced
        left: dict[str, str] = {} if injection is None else injection.left
        line: dict[str, Any] = {
            "phase": package,
            "replaced": dict(Counter(replaced.values())),
            "left": [{"modules": modules, "reason": reason} for reason, modules in alike(left).items()],
            "refused": NO_INJECT if injection is None else None,
        }
        hand_over(line, cached=False)
    about = {
        "model": job.model,
        "small": job.small,
        "dtype": job.dtype,
        "device": torch.cuda.get_device_name() if job.device == "cuda" else "cpu",
        "torch": torch.__version__,
    }
    numbers = compared(model, switch, job) if switch.own else {"phase": "numbers"}
    hand_over({**numbers, **about}, cached=False)


if __name__ == "__main__":
    run(Job.read(sys.argv[1]))
