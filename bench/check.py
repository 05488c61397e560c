"""The record of bench/check.rs: `python3 bench/check.py > bench/results/DATE-check.json`.

Runs the benchmark, in release, and prints one JSON object with what it found: for reading and judging a project
of 50 files, and for the whole program on it, the median of a run with its 95% interval. Run nothing else beside it.
"""

import datetime
import json
import os
import subprocess
from pathlib import Path

import machine

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ["cargo", "bench", "--quiet", "--package", "kernel-builder", "--bench", "check"]
# The issue that asked for `check` wants a project of 50 files judged within this time.
LIMIT_MILLISECONDS = 30


def median(timed: dict, name: str) -> dict:
    found = [round(timed[name][key], 3) for key in ("median", "low", "high")]
    return dict(zip(("median_milliseconds", "low", "high"), found))


def main() -> None:
    lines = subprocess.check_output(COMMAND, cwd=ROOT, text=True).splitlines()
    timed = {line["name"]: line for line in map(json.loads, lines)}
    commit = subprocess.check_output(["git", "describe", "--always", "--dirty", "--abbrev=40"], cwd=ROOT, text=True)
    record = {
        "commit": commit.strip(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "command": " ".join(COMMAND),
        "machine": machine.described() | {"load": [round(load, 2) for load in os.getloadavg()]},
        "files": 50,
        "limit_milliseconds": LIMIT_MILLISECONDS,
        "read and judge": median(timed, "read and judge"),
        "the whole process": median(timed, "the whole process"),
    }
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
