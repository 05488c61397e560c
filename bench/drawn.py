#!/usr/bin/env python3
"""Packages at lengths that nobody tuned them for: `bench --drawn` of several projects with several seeds.

    python3 bench/drawn.py examples/rms-norm examples/softmax --out FOLDER --seeds 7 8 9 --count 20 --program target/release/kernelwright

Each project is built with the CUDA toolkit and for the PyTorch of the machine and judged, then measured with every seed, by default
beside eager PyTorch, the fused operator and torch.compile. With --prebuilt, the builds in the projects are measured, such as those
that `packages.py judge --keep` has judged. With several GPUs, each measures one project with one seed at a time; in
the order of the seeds, so that all projects have a seed before the next one begins. With --backend cpu the package for processors is
measured instead.

FOLDER/drawn.jsonl has a line for each project and seed: `project`, `seed`, `step` (exit status, seconds, error, what was not
measured), `cases` (see translation.py) and `means` (geometric means over the best rival and over each rival, with 95% intervals and
the number of losses), and a line for each project that was not verified, without a seed. A second start goes on where the first one
ended; no step begins after --seconds. Prints the means and the losses of all seeds together. Ends with 3 if steps are left.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import queue
import shutil
import sys
import threading
import time

from kernelbench import as_built, gpus, run
from translation import RIVALS, cases, geomean

#: A rival that is faster by more than this is a loss.
LOSS = 0.98


class Lines:
    """The lines of projects and seeds, written anew after every step."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.of = {(row["project"], row["seed"]): row for row in map(json.loads, lines)}

    def add(self, row):
        with self.lock:
            self.of[row["project"], row["seed"]] = row
            unfinished = self.path.with_suffix(".part")
            unfinished.write_text("".join(json.dumps(one) + "\n" for one in self.of.values()), encoding="utf-8")
            unfinished.replace(self.path)
        seed = "judged" if row["seed"] is None else f"seed {row['seed']}"
        print(f"{row['project']}: {seed}: ended with {row['step']['exit']} after {row['step']['seconds']} s", file=sys.stderr, flush=True)


def words_of(options, project):
    if options.prebuilt:
        return [project, "--prebuilt", "--backend", options.backend]
    return [project, "--backend", "cpu"] if options.backend == "cpu" else as_built(project)


def judged(options, lines, project):
    """Builds and judges a project; whether that was reached."""
    if (project.name, None) in lines.of:
        return True
    if time.monotonic() - options.begun > options.seconds:
        return False
    threads = max(2, (os.cpu_count() or 2) // len(options.projects))
    step, _ = run(options.program, ["verify", *words_of(options, project), "--threads", threads], None, options.step_seconds)
    lines.add({"project": project.name, "seed": None, "step": step})
    return True


def measured(options, lines, project, seed, gpu):
    """Measures a project with a seed; whether that was reached."""
    if (project.name, seed) in lines.of or lines.of[project.name, None]["step"]["exit"] != 0:
        return True
    if time.monotonic() - options.begun > options.seconds:
        return False
    without = [word for rival in options.rivals_left_out for word in ("--without", rival)]
    regimes = [word for regime in options.regimes for word in ("--regime", regime)]
    how = [*without, *regimes, "--budget", options.budget, "--starts", options.starts]
    words = ["bench", *words_of(options, project), "--drawn", seed, "--count", options.count, *how]
    if options.backend == "cpu":
        words = words[:-2]
    step, result = run(options.program, words, gpu, options.step_seconds)
    step["told"] = [one for one in result.get("told", []) if "was not measured" in one]
    found = [one for one in cases(project) if one["workload"].startswith(f"drawn-{seed}-")]
    means = [mean for one in result.get("drawn", []) for mean in one["means"]]
    lines.add({"project": project.name, "seed": seed, "step": step, "cases": found, "means": means})
    return True


def best(case):
    """The ratio over the fastest rival of a case that was measured, and its name."""
    known = [(one["ratio"], one["versus"]) for one in case["ratios"] if one["versus"] in RIVALS]
    return min(known, default=None)


def table(rows):
    """Means of all seeds in Markdown, then the losses, the largest first."""
    lines, found, losses = ["| project | regime | cases | over the best rival | over torch.compile | losses |", "|---|---|---|---|---|---|"], {}, []
    for row in rows:
        for case in row.get("cases", []):
            if case["regime"] == "hot" or best(case) is None:
                continue
            found.setdefault((row["project"], case["regime"]), []).append(case)
            found.setdefault(("all", case["regime"]), []).append(case)
            if best(case)[0] < LOSS:
                losses.append((*best(case), row["project"], case))
    for (project, regime), these in sorted(found.items(), key=lambda one: (one[0][0] == "all", one[0])):
        compiled = [one["ratio"] for case in these for one in case["ratios"] if one["versus"] == "compile"]
        ratios = [best(case)[0] for case in these]
        lost = sum(ratio < LOSS for ratio in ratios)
        over = f"{geomean(compiled):.3f}x" if compiled else "-"
        lines.append(f"| {project} | {regime} | {len(these)} | {geomean(ratios):.3f}x | {over} | {lost} |")
    lines.append("")
    for ratio, versus, project, case in sorted(losses, key=lambda one: one[0]):
        axes = ", ".join(f"{axis} {length}" for axis, length in (case["axes"] or {}).items())
        time_ = f"{case['seconds'] * 1e6:.1f} us, " if case["seconds"] else ""
        lines.append(f"- {project}, {case['dtype']}, {axes}, {case['regime']}: {time_}{ratio:.2f}x of {versus}")
    for row in rows:
        if row["step"]["exit"] != 0:
            code, message = row["step"]["error"]
            what = "judged" if row["seed"] is None else f"seed {row['seed']}"
            lines.append(f"- {row['project']}, {what}: {code}: {' '.join((message or '').split())[:300]}")
        lines += [f"- {row['project']}: {told}" for told in row["step"].get("told", [])]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projects", type=pathlib.Path, nargs="+", help="folders of projects; builds and records are written there")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder for results, made if missing")
    parser.add_argument("--seeds", type=int, nargs="+", required=True, help="seeds of the cases")
    parser.add_argument("--count", type=int, default=20, help="cases for each seed")
    parser.add_argument("--program", default="kernelwright", help="default: the one in PATH")
    parser.add_argument("--backend", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--prebuilt", action="store_true", help="build nothing; what was verified before is not verified again")
    parser.add_argument("--starts", type=int, default=1, help="starts of the processes on a GPU")
    parser.add_argument("--regimes", nargs="*", choices=["graph", "cold", "hot"], default=[], help="regimes of a GPU; default: all")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of sampling for a case and regime")
    parser.add_argument("--rivals-left-out", nargs="*", default=["compile-max"], help="rivals that `bench` leaves out")
    parser.add_argument("--step-seconds", type=float, default=1800.0, help="interrupt `verify` or `bench` after these")
    parser.add_argument("--seconds", type=float, default=1e6, help="no step begins after these; default: no limit")
    options = parser.parse_args()
    options.begun = time.monotonic()
    program = shutil.which(options.program)
    if program is None:
        parser.error(f"program not found: {options.program}")
    options.program = program
    missing = [str(one) for one in options.projects if not (one / "op.toml").is_file()]
    if missing:
        parser.error(f"no op.toml in {', '.join(missing)}")
    if len({one.resolve().name for one in options.projects}) < len(options.projects):
        parser.error("two projects have the same name")
    options.projects = [one.resolve() for one in options.projects]
    here = [None] if options.backend == "cpu" else gpus()
    if not here:
        parser.error("no GPU is here; --backend cpu measures on the processor")
    options.out.mkdir(parents=True, exist_ok=True)
    lines = Lines(options.out / "drawn.jsonl")
    with concurrent.futures.ThreadPoolExecutor(1 if options.backend == "cpu" else len(options.projects)) as pool:
        left = sum(not whole for whole in pool.map(lambda one: judged(options, lines, one), options.projects))
    free = queue.SimpleQueue()
    for gpu in here:
        free.put(gpu)
    # One run at a time writes a project's records.
    locks = {project: threading.Lock() for project in options.projects}

    def on_one(pair):
        seed, project = pair
        with locks[project]:
            gpu = free.get()
            try:
                return measured(options, lines, project, seed, gpu)
            finally:
                free.put(gpu)

    known = [one for one in options.projects if (one.name, None) in lines.of]
    with concurrent.futures.ThreadPoolExecutor(len(here) + len(known)) as pool:
        left += sum(not whole for whole in pool.map(on_one, [(seed, project) for seed in options.seeds for project in known]))
    print(table(list(lines.of.values())))
    if left:
        print(f"{left} steps are left for the next start", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
