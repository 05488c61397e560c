#!/usr/bin/env python3
"""Each template beside the translation of its own function: which of the two is faster on a GPU.

    python3 bench/instances.py --program target/release/kernelwright --out FOLDER
    python3 bench/instances.py --out FOLDER --only transpose:matrix-8192x8192 cumsum --fill 30 --seconds 500

A template makes one project, and `new --from --translate` of its reference.py another, with the scalars' defaults as constants. Both
are judged, tuned for --fill seconds and measured twice in turn, on the same workload: the first two of a template in one dtype, or those
named. Templates that a translation cannot replace (an output in place, no workload on a GPU) are left out.

FOLDER/instances.jsonl has a line for each pair: `template`, `workload`, `steps` (exit status, seconds and the error of each), and
`times` of both by regime, in seconds. A second start goes on where the first one ended; no step begins after --seconds. Prints a
table: the template's time over the translation's, so that more than 1 means a faster translation. Needs PyTorch only through
kernelwright. Ends with 3 if steps are left.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import tomllib

from translation import cases

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "templates"
#: Elements of the largest tensor of the example.
EXAMPLE = 1 << 22
DTYPES = {
    "bf16": "torch.bfloat16", "f16": "torch.float16", "f32": "torch.float32", "f8e4m3": "torch.float8_e4m3fn",
    "f8e5m2": "torch.float8_e5m2", "i8": "torch.int8", "i32": "torch.int32", "i64": "torch.int64", "bool": "torch.bool",
}  # fmt: skip
REGIMES = ("graph", "cold")
TURNS = ("bench", "bench-again")


def op_of(project):
    return tomllib.loads((project / "op.toml").read_text(encoding="utf-8"))


def workloads(op):
    """The workloads of one dtype that are measured on a GPU, in order."""
    found = {}
    for name, one in op.get("workload", {}).items():
        fits = "bench" in one.get("for", ["bench"]) and "cuda" in one.get("devices", [])
        if fits and len(one.get("dtypes", [])) == 1 and not one.get("hold-out"):
            found[name] = one
    return found


def lengths_of(op, workload):
    """The length of every axis in a workload."""
    fixed = {name: axis["value"] for name, axis in op["axes"].items() if "value" in axis}
    return {**fixed, **workload["axes"]}


def dtype_of(tensor, op, workload):
    return workload["dtypes"][0] if tensor["dtype"] in op.get("dtypes", {}) else tensor["dtype"]


def example(op, workload):
    """Python text of `example_inputs_...`: the workload's tensors, with fewer rows."""
    lengths = lengths_of(op, workload)
    inputs = {name: one for name, one in op["inputs"].items() if name not in workload.get("without", [])}
    sizes = [math.prod(lengths[axis] for axis in one["shape"]) for one in inputs.values()]
    first = next(axis for one in inputs.values() for axis in one["shape"])
    if max(sizes) > EXAMPLE:
        lengths[first] = max(2, lengths[first] * EXAMPLE // max(sizes))
    made = []
    for name, one in inputs.items():
        shape, dtype = [lengths[axis] for axis in one["shape"]], dtype_of(one, op, workload)
        if dtype.startswith("i"):
            value = f"torch.randint(0, {min(127, *lengths.values())}, {shape}).to({DTYPES[dtype]})"
        else:
            value = f"torch.randn({shape}).to({DTYPES[dtype]})"
        made.append(f'        "{name}": {value},')
    for name, one in op.get("scalars", {}).items():
        value = workload.get("scalars", {}).get(name, one.get("default"))
        if value is not None:
            made.append(f'        "{name}": {value!r},')
    function = op["reference"]["function"]
    return f"\n\ndef example_inputs_{function}():\n    return {{\n" + "\n".join(made) + "\n    }\n"


class Pair:
    """A template and the translation of its function, on one workload."""

    def __init__(self, options, rows, template, workload):
        self.options, self.rows, self.template, self.workload = options, rows, template, workload
        self.folder = options.out / "projects" / f"{template}-{workload}"
        self.row = rows.setdefault((template, workload), {"template": template, "workload": workload, "steps": {}, "times": {}})

    def step(self, name, words):
        """Runs a step once; whether it ended well."""
        known = self.row["steps"].get(name)
        if known is not None:
            return known["exit"] == 0
        if time.monotonic() - self.options.begun > self.options.seconds:
            self.options.left += 1
            return False
        begun = time.monotonic()
        done = subprocess.run([self.options.program, *map(str, words), "--message-format", "json"], capture_output=True, text=True, check=False)
        said = {"exit": done.returncode, "seconds": round(time.monotonic() - begun, 1)}
        if done.returncode != 0:
            events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            said["error"] = next((one.get("message") for one in events if one.get("event") == "error"), done.stderr[-500:])
        self.row["steps"][name] = said
        self.options.save(self.rows)
        print(f"{self.template}, {self.workload}: {name} ended with {done.returncode} after {said['seconds']} s", file=sys.stderr, flush=True)
        return done.returncode == 0

    def projects(self):
        return (("template", self.folder / "template"), ("translation", self.folder / "translation"))

    def made(self):
        """Makes and judges both projects."""
        of_template, of_translation = (project for _, project in self.projects())
        if not self.step("new template", ["new", "bench/pair", of_template, "--template", self.template, "--no-git", "--offline"]):
            return False
        op = op_of(of_template)
        workload = op["workload"][self.workload]
        file = self.folder / "function.py"
        file.write_text((of_template / op["reference"]["file"]).read_text(encoding="utf-8") + example(op, workload), encoding="utf-8")
        source = f"{file}:{op['reference']['function']}"
        fresh = "new translation" not in self.row["steps"]
        words = ["new", "bench/pair", of_translation, "--from", source, "--translate", "--no-git", "--offline"]
        if not self.step("new translation", words):
            return False
        if fresh:
            self.add_workload(op, workload, of_translation)
        if self.options.until == "make":
            return True
        return all([self.step(f"verify {name}", ["verify", "--device", project]) for name, project in self.projects()])

    def add_workload(self, op, workload, project):
        """Writes the template's workload into the translation's op.toml; axes go by the shapes of equal inputs."""
        own, lengths, found = op_of(project), lengths_of(op, workload), {}
        for name, tensor in own["inputs"].items():
            for axis, theirs in zip(tensor["shape"], op["inputs"][name]["shape"], strict=True):
                if "value" not in own["axes"][axis]:
                    found[axis] = lengths[theirs]
        axes = ", ".join(f"{axis} = {length}" for axis, length in found.items())
        variable = bool(own.get("dtypes"))
        text = f'\n[workload.{self.workload}]\naxes = {{ {axes} }}\ndevices = ["cuda"]\n'
        text += f'dtypes = ["{workload["dtypes"][0]}"]\n' if variable else ""
        with (project / "op.toml").open("a", encoding="utf-8") as file:
            file.write(text)

    def measured(self):
        """Tunes and measures both, in turn."""
        if not all(self.row["steps"].get(f"verify {name}", {"exit": 1})["exit"] == 0 for name, _ in self.projects()):
            return
        chosen = ["--workload", self.workload]
        if self.options.fill > 0:
            for name, project in self.projects():
                self.step(f"fill {name}", ["fill", project, *chosen, "--budget", self.options.fill])
        alone = ["--without", "compile", "--without", "compile-max", "--starts", 1]
        for turn in TURNS:
            for name, project in self.projects():
                if f"{turn} {name}" not in self.row["steps"] and self.step(f"{turn} {name}", ["bench", "--device", project, *chosen, *alone]):
                    for case in cases(project):
                        self.row["times"].setdefault(f"{name} {case['regime']}", []).append(case["seconds"])
                        self.row["device"], self.row["commit"] = case["device"], case["commit"]
        self.options.save(self.rows)


def table(rows):
    lines = ["| template | workload | " + " | ".join(f"translation, {one}" for one in REGIMES) + " | measured again |", "|---|---|---|---|---|"]
    for row in rows.values():
        cells = [[], []]
        for regime in REGIMES:
            pairs = zip(row["times"].get(f"template {regime}", []), row["times"].get(f"translation {regime}", []))
            for turn, (one, two) in enumerate(pairs):
                cells[min(turn, 1)].append(f"{one / two:.3f}x")
        failed = [f"{name}: {' '.join((one.get('error') or '').split())[:120]}" for name, one in row["steps"].items() if one["exit"] != 0]
        said = [*cells[0], *[""] * (2 - len(cells[0]))]
        lines.append(f"| {row['template']} | {row['workload']} | {' | '.join(said)} | {', '.join(cells[1]) or '; '.join(failed)} |")
    return "\n".join(lines)


def chosen_pairs(options):
    """(template, workload) of every pair to measure."""
    wanted = [one.partition(":")[::2] for one in options.only]
    unknown = [name for name, _ in wanted if not (TEMPLATES / name / "op.toml.j2").exists()]
    if unknown:
        sys.exit(f"no such template in {TEMPLATES}: {', '.join(unknown)}")
    found = []
    for folder in sorted(TEMPLATES.iterdir()):
        own = [workload for name, workload in wanted if name == folder.name]
        if not (folder / "op.toml.j2").exists() or (wanted and not own):
            continue
        project = options.out / "plain" / folder.name
        if not project.exists():
            words = ["new", "bench/plain", project, "--template", folder.name, "--no-git", "--offline"]
            subprocess.run([options.program, *map(str, words)], check=True, capture_output=True)
        op = op_of(project)
        if any("inplace" in one for one in op["outputs"].values()):
            continue
        names = list(workloads(op))
        for name in [one for one in own if one] or names[:2]:
            if name not in names:
                sys.exit(f"`{folder.name}` has no workload `{name}` of one dtype on a GPU; it has: {', '.join(names)}")
            found.append((folder.name, name))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="kernelwright", help="default: the one in PATH")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder for projects and results, made if missing")
    parser.add_argument("--only", nargs="*", default=[], metavar="TEMPLATE[:WORKLOAD]", help="only these")
    parser.add_argument("--fill", type=float, default=10.0, help="seconds of search for each project; 0: none")
    parser.add_argument("--seconds", type=float, default=1e6, help="no step begins after these; default: no limit")
    parser.add_argument("--jobs", type=int, default=1, help="pairs that are made and judged side by side")
    parser.add_argument("--until", choices=["make", "judge", "measure"], default="measure", help="the last step; `make` needs no GPU")
    parser.add_argument("--print", action="store_true", help="only print the table of what is there")
    options = parser.parse_args()
    options.begun, options.left = time.monotonic(), 0
    options.out.mkdir(parents=True, exist_ok=True)
    path, lock = options.out / "instances.jsonl", threading.Lock()
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = {(row["template"], row["workload"]): row for row in map(json.loads, lines)}

    def save(rows):
        with lock:
            unfinished = path.with_suffix(".part")
            unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows.values()), encoding="utf-8")
            unfinished.replace(path)

    options.save = save
    if not options.print:
        program = shutil.which(options.program)
        if program is None:
            parser.error(f"program not found: {options.program}")
        options.program = program
        pairs = [Pair(options, rows, *one) for one in chosen_pairs(options)]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(Pair.made, pairs))
        # One at a time: a GPU that judges others is slower.
        for pair in pairs if options.until == "measure" else []:
            pair.measured()
    print(table(rows))
    if options.left:
        print(f"{options.left} steps are left for the next start", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
