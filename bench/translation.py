#!/usr/bin/env python3
"""The functions of tests/translation as kernels: made by `new --from`, verified, tuned, measured, one line each.

    python3 bench/translation.py --program target/release/kernelwright --out FOLDER --seconds 500
    python3 bench/translation.py --program target/debug/kernelwright --out FOLDER --backend cpu
    python3 bench/translation.py --out FOLDER --print

On a GPU the steps of a function are `new --from`, `verify --device` of the function and of its gradient, `fill` (left out with
--fill 0) and `bench --device` on one workload of bf16: `large` of a translation, the first that is measured of a template; with
--gradients the last two of the gradient, too. On the processor they are `new --from` and `verify --backend cpu`, which judges the
gradient as well. Steps of several functions run side by side, but for `fill` and `bench`.

FOLDER/translation.jsonl has a line for each function, written anew after every step: `function`, `file`, `serves` (the
template, or `translation`), `kernels`, `notes`, `steps` (exit status, seconds and, after a failure, the codes and messages),
and `cases` (one for each regime: seconds, the ratios with their intervals, the share of a copy), `device`, `torch`, `commit`.
A second start with the same --out goes on where the first one ended. So does one with --earlier FILE on another machine: it
leaves out the functions that are complete there, and copies their lines. No step begins after --seconds, and one that still
runs 20 seconds later is interrupted and repeated by the next start. Ends with 3 if steps are left.
"""

import argparse
import ast
import concurrent.futures
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
FUNCTIONS = ROOT / "tests" / "translation"
#: Seconds after the last moment for a step to begin, until those that run are interrupted.
GRACE = 20
#: Until a program that was interrupted is killed.
PATIENCE = 15
RIVALS = ("eager", "fused", "compile", "compile-max")


def subjects(files):
    """(file, function or class) of everything that a file of functions defines for `new --from`."""
    found = []
    for path in files:
        for one in ast.parse(path.read_text(encoding="utf-8")).body:
            is_subject = isinstance(one, (ast.FunctionDef, ast.ClassDef)) and not one.name.startswith(("_", "example_"))
            if is_subject:
                found.append((path, one.name))
    return found


def measured_workload(description):
    """The name of the workload that is measured on a GPU: `large`, or else the first one that is measured there."""
    workloads = tomllib.loads(description.read_text(encoding="utf-8")).get("workload", {})
    fits = [
        name
        for name, one in workloads.items()
        if "bench" in one.get("for", ["bench"]) and "cuda" in one.get("devices", ["cuda"]) and not one.get("hold-out")
    ]
    return "large" if "large" in fits else next(iter(fits), None)


class Run:
    """All functions with their steps, those of earlier starts among them."""

    def __init__(self, options):
        self.options, self.begun = options, time.monotonic()
        self.path, self.lock = options.out / "translation.jsonl", threading.Lock()
        self.rows, self.left = {}, 0
        for path in [*options.earlier, self.path]:
            if path.exists():
                for line in path.read_text(encoding="utf-8").splitlines():
                    row = json.loads(line)
                    # Projects of another machine are not here: only what is complete counts.
                    if path == self.path or row.get("complete"):
                        self.rows[row["function"]] = row

    def remaining(self):
        return self.options.seconds - (time.monotonic() - self.begun)

    def write(self):
        with self.lock:
            text = "".join(json.dumps(row) + "\n" for row in self.rows.values())
            unfinished = self.path.with_suffix(".part")
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(self.path)

    def step(self, row, name, words):
        """Runs the program, unless this step was run before; whether it ended well."""
        known = row["steps"].get(name)
        if known is not None and (known["exit"] == 0 or not self.options.again):
            return known["exit"] == 0
        if self.remaining() <= 0:
            with self.lock:
                self.left += 1
            return False
        begun = time.monotonic()
        command = [self.options.program, *map(str, words), "--message-format", "json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, err = process.communicate(timeout=self.remaining() + GRACE)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            with self.lock:
                self.left += 1
            return False
        seconds = round(time.monotonic() - begun, 2)
        events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        errors = [{"code": one.get("code"), "message": one.get("message")} for one in events if one.get("event") == "error"]
        step = {"exit": process.returncode, "seconds": seconds}
        if process.returncode != 0:
            step["errors"] = errors or [{"code": None, "message": err[-1000:]}]
        row["steps"][name] = step
        for event in events:
            if event.get("event") == "result":
                self.take(row, name, event)
        self.write()
        print(f"{row['function']}: {name} ended with {process.returncode} after {seconds:.1f} s", file=sys.stderr, flush=True)
        return process.returncode == 0

    def take(self, row, name, event):
        """What the line says of a step's result."""
        if name == "new":
            told = event.get("from") or {}
            row["serves"] = "translation" if "translated" in told else event.get("template")
            row["kernels"], row["notes"] = told.get("kernels", []), told.get("notes", [])
        if name == "fill":
            cases = event.get("cases", [])
            row["filled"] = [{key: one.get(key) for key in ("case", "judged", "right", "refused", "tuning", "gain")} for one in cases]

    def row(self, path, function):
        return self.rows.setdefault(function, {"function": function, "file": path.name, "steps": {}, "complete": False})

    def make(self, subject):
        path, function = subject
        row, project = self.row(path, function), self.project(function)
        if not project.exists():
            row["steps"].pop("new", None)
        elif "new" not in row["steps"]:
            # A start that was interrupted left it.
            shutil.rmtree(project)
        return self.step(
            row, "new", ["new", f"bench/{project.name}", project, "--from", f"{path}:{function}", "--no-git", "--offline"]
        )

    def judge(self, subject):
        path, function = subject
        row, project = self.row(path, function), self.project(function)
        if self.options.backend == "cpu":
            return self.step(row, "verify", ["verify", project, "--backend", "cpu"])
        right = self.step(row, "verify", ["verify", "--device", project])
        if (project / "backward.toml").exists():
            self.step(row, "verify-gradient", ["verify", "--device", project / "backward.toml"])
        return right

    def measure(self, subject):
        path, function = subject
        row, project = self.row(path, function), self.project(function)
        parts = [("", project, "op.toml")]
        gradient = project / "backward.toml"
        if self.options.gradients and gradient.exists() and row["steps"].get("verify-gradient", {}).get("exit", 0) == 0:
            parts.append(("-gradient", gradient, "backward.toml"))
        for suffix, subject, description in parts:
            workload = measured_workload(project / description)
            if workload is None:
                continue
            chosen = ["--workload", workload]
            if self.options.fill > 0:
                # A search that finds nothing better is no reason to measure nothing.
                self.step(row, f"fill{suffix}", ["fill", subject, *chosen, "--budget", self.options.fill])
            without = [word for rival in self.options.without for word in ("--without", rival)]
            starts = ["--starts", self.options.starts]
            if self.step(row, f"bench{suffix}", ["bench", "--device", subject, *chosen, *without, *starts]):
                row["cases"] = cases(project)

    def has_gradient(self, path, function):
        """Whether there is a gradient to measure."""
        return self.row(path, function)["steps"].get("verify-gradient", {}).get("exit") == 0

    def project(self, function):
        return self.options.out / "projects" / function.lower().replace("_", "-")

    def all(self, chosen):
        """Every step of every function, side by side where nothing is timed."""
        pending = [one for one in chosen if not self.row(*one)["complete"]]
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            left = [one for one, well in zip(pending, pool.map(self.make, pending)) if well]
        judges = self.options.jobs if self.options.backend == "cpu" else min(self.options.jobs, self.options.judges)
        for step in self.options.steps:
            if step == "verify":
                with concurrent.futures.ThreadPoolExecutor(judges) as pool:
                    left = [one for one, well in zip(left, pool.map(self.judge, left)) if well]
            elif self.options.backend == "cuda":
                for one in left:
                    self.measure(one)
        last = "bench" if self.options.backend == "cuda" else "verify"
        for one in pending:
            row = self.row(*one)
            failed = any(row["steps"].get(name, {}).get("exit", 0) != 0 for name in ("new", "verify"))
            of_gradient = f"{last}-gradient" in row["steps"] or not self.options.gradients
            row["complete"] = failed or ({"verify", last} <= row["steps"].keys() and (of_gradient or not self.has_gradient(*one)))
        self.write()


def cases(project):
    """The latest figures of each regime, of the project's records."""
    path, latest = project / ".kernelwright" / "records.jsonl", {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        record = json.loads(line)
        latest[record["op"], record["workload"], record["dtype"], record["regime"]] = record
    found = []
    for (op, workload, dtype, regime), record in latest.items():
        kernel = next((one for one in record["contenders"] if one["name"] == "kernel"), {})
        found.append(
            {
                "op": op, "workload": workload, "axes": record.get("axes"), "dtype": dtype, "regime": regime,
                "seconds": kernel.get("median_seconds"), "ratios": record["ratios"], "copy_fraction": record["copy_fraction"],
                "throttled": record.get("throttled"), "device": record["device"], "torch": record["torch"],
                "protocol": record["protocol"], "starts": len(record.get("starts", [])) or 1, "commit": record.get("commit"),
            }
        )  # fmt: skip
    return found


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def table(rows):
    """Markdown: each function with its figures, then geometric means for each regime."""
    lines = ["| function | serves | outcome | regime | time | " + " | ".join(f"vs {one}" for one in RIVALS) + " | of copy |"]
    lines.append("|" + "---|" * (6 + len(RIVALS)))
    found = {}
    for row in rows:
        failed = [name for name, step in row["steps"].items() if step["exit"] != 0 and not name.startswith("fill")]
        outcome = f"{failed[0]} failed" if failed else "verified" if "verify" in row["steps"] else "unfinished"
        shown = [one for one in row.get("cases", []) if one["regime"] in ("graph", "cold")]
        for case in shown or [None]:
            cells = [(case or {}).get("op") or row["function"], row.get("serves") or "", outcome]
            if case is None:
                lines.append(f"| {' | '.join(cells + [''] * (3 + len(RIVALS)))} |")
                continue
            ratios = {one["versus"]: one for one in case["ratios"]}
            for rival in RIVALS:
                if rival in ratios:
                    kind = "gradients" if case["op"].endswith("_backward") else "functions"
                    found.setdefault((kind, case["regime"], rival), []).append(ratios[rival]["ratio"])
            said = [ratios.get(rival) for rival in RIVALS]
            words = [f"{one['ratio']:.2f}x [{one['low']:.2f}, {one['high']:.2f}]" if one else "" for one in said]
            copy = f"{case['copy_fraction']:.0%}" if case["copy_fraction"] is not None else ""
            time_ = f"{case['seconds'] * 1e6:.1f} us" if case["seconds"] else ""
            lines.append(f"| {' | '.join([*cells, case['regime'], time_, *words, copy])} |")
    lines.append("")
    for (kind, regime, rival), ratios in sorted(found.items()):
        lines.append(f"{kind}, {regime}, over {rival}: geometric mean {geomean(ratios):.3f}x of {len(ratios)}")
    outcomes = [all(step["exit"] == 0 for name, step in row["steps"].items() if not name.startswith("fill")) for row in rows]
    verified = sum("verify" in row["steps"] and well for row, well in zip(rows, outcomes))
    lines.append(f"verified, and measured where that was asked: {verified} of {len(rows)}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="kernelwright", help="default: the one in PATH")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder for projects and results, made if missing")
    parser.add_argument("--earlier", type=pathlib.Path, nargs="+", default=[], help="results of earlier starts elsewhere")
    parser.add_argument("--backend", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--files", type=pathlib.Path, nargs="+", default=[FUNCTIONS / "models.py", FUNCTIONS / "level1.py"])
    parser.add_argument("--only", nargs="+", metavar="FUNCTION", help="only these functions")
    parser.add_argument(
        "--steps", nargs="*", choices=["verify", "measure"], default=["verify", "measure"],
        help="what follows `new`, in this order; `bench` judges what it measures, so `measure verify` gives figures first",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=1e6, help="no step begins after these; default: no limit")
    parser.add_argument("--fill", type=float, default=10.0, help="seconds of search for each function; 0: none")
    parser.add_argument("--gradients", action="store_true", help="measure gradients, too")
    parser.add_argument("--starts", type=int, default=1, help="starts of the processes in `bench`")
    parser.add_argument("--without", nargs="*", default=["compile-max"], help="rivals that `bench` leaves out")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="functions that are made side by side")
    parser.add_argument("--judges", type=int, default=4, help="functions that are verified side by side on a GPU")
    parser.add_argument("--again", action="store_true", help="repeat steps that failed")
    parser.add_argument("--print", action="store_true", help="only print the table of what is there")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [one for one in subjects(options.files) if not options.only or one[1] in options.only]
    if options.only and {name for _, name in chosen} != set(options.only):
        parser.error(f"not in {', '.join(map(str, options.files))}: {set(options.only) - {name for _, name in chosen}}")
    run = Run(options)
    if not options.print:
        program = shutil.which(options.program)
        if program is None:
            parser.error(f"program not found: {options.program}; `cargo build --release` makes target/release/kernelwright")
        options.program = program
        if options.again:
            for row in run.rows.values():
                row["complete"] = row["complete"] and all(step["exit"] == 0 for step in row["steps"].values())
        run.all(chosen)
    print(table([row for row in run.rows.values() if not options.only or row["function"] in options.only]))
    if run.left:
        print(f"{run.left} steps are left for the next start", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
