#!/usr/bin/env python3
"""The tasks of KernelBench as kernels: how many `new --from` makes a project of, and how many of those are verified.

    git clone https://github.com/ScalingIntelligence/KernelBench
    python3 bench/kernelbench.py KernelBench/KernelBench/level2 --program target/release/kernelwright --out FOLDER
    python3 bench/kernelbench.py KernelBench/KernelBench/level1 --out FOLDER --without conv pool matmul attention --verify
    python3 bench/kernelbench.py KernelBench/KernelBench/level1 --out FOLDER --without conv pool matmul attention --own --measure

The tasks' own sizes take gigabytes, so numbers at the top of a file are made smaller: a batch is 2, heights and widths are 12,
and counts of channels and features from 48 on are divided, all alike, so that they still fit together. Where they do not, only
the batch is smaller, or the batch is divided like the others. `new --from` then gets the task's `Model` as a class without arguments, with its example.

With --own only the batch is made smaller, so that the largest tensor of the example has 4M elements, and op.toml gets a
workload `own` with the task's own lengths in float32, which --measure judges, tunes for --fill seconds and measures on a GPU,
against eager PyTorch and torch.compile. The judge moves every result through memory several times, so the batch of `own` is
halved until no tensor has more than 128 MiB. This needs PyTorch in the Python that runs the script, to ask the task for its
shapes; no tensor is made. A package with operators that stay PyTorch's is judged and measured as built, with the CUDA toolkit and
the PyTorch of the machine, and with default settings; it is judged on smaller batches than it is measured on.

FOLDER/kernelbench.jsonl has a line for each task: `task`, `exit`, `seconds`, `serves` (the template, or `translation`),
`kernels`, `notes`, `error` (code and message), with --verify the same of `verify --backend cpu`, and with --measure the same of
`verify --device` or `verify` (`judge`), `fill` and `bench`, and `cases` (see translation.py). With several GPUs, each measures
one task at a time. A second start goes on where the first one ended; no step begins after --seconds. A step that takes longer
than --step-seconds is interrupted, and not begun again: take it out of kernelbench.jsonl for that. Prints a table. Ends with 3
if steps are left.
"""

import argparse
import ast
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib

from translation import RIVALS, cases, geomean

WRAPPED = """

class Task(Model):
    def __init__(self):
        super().__init__(*get_init_inputs())


def example_inputs_Task():
    torch.manual_seed(0)
    return tuple(get_inputs())
"""
#: What is made smaller; the first of these with which a task runs counts.
EVERYTHING, BATCH, ALIKE = "everything", "the batch alone", "everything alike"
BATCHES = ("batch", "batch_size")
PLACES = ("depth", "height", "width")
#: Bytes of the largest tensor of the workload `own`.
LARGEST = 128 << 20
#: Elements of the largest tensor of an example with --own: the plan follows from whether rows are few.
EXAMPLE = 4 << 20


def smaller(name, value, what, share):
    """The size that a number at the top of a task gets; `share` of a batch stays."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if name in BATCHES and what != ALIKE:
        return max(2, int(value * share))
    if what == BATCH:
        return value
    if name in PLACES:
        return min(value, 12)
    for least, divisor in ((1024, 16), (200, 8), (48, 4)):
        if value >= least:
            return min(value // divisor, 512)
    return value


def task(text, what, share=0):
    """The text of a task with smaller sizes, as a class without arguments that has an example; `share` of a batch stays."""
    tree = ast.parse(text)
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        try:
            value = ast.literal_eval(node.value)
        except ValueError:
            continue
        target = node.targets[0]
        if isinstance(value, tuple):
            names = target.elts if isinstance(target, ast.Tuple) else [target] * len(value)
            value = tuple(smaller(getattr(name, "id", ""), one, what, share) for name, one in zip(names, value, strict=True))
        else:
            value = smaller(getattr(target, "id", ""), value, what, share)
        node.value = ast.parse(repr(value), mode="eval").body
    return ast.unparse(ast.fix_missing_locations(tree)) + WRAPPED


def run(program, words, gpu=None, limit=None):
    """Exit status, seconds, the result and the first error of a command, which sees one GPU or all.

    What `bench` did not measure is in `told` of the result, with the reason.

    It is interrupted after `limit` seconds.
    """
    begun = time.monotonic()
    seen = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
    words = [program, *map(str, words), "--message-format", "json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **seen})
    try:
        output, errors = process.communicate(timeout=limit)
        late = None
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
        late = [None, f"interrupted after {limit:.0f} s"]
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    error = next((one for one in events if one.get("event") == "error"), None)
    result = next((one for one in reversed(events) if one.get("event") == "result"), {})
    notes = [one["text"] for one in events if one.get("event") == "note" and "was not measured" in one["text"]]
    result = {**result, "told": [*result.get("told", []), *notes]}
    said = {"exit": process.returncode, "seconds": round(time.monotonic() - begun, 1)}
    if process.returncode != 0:
        said["error"] = late or ([error["code"], error["message"]] if error else [None, errors[-500:]])
    return said, result


def own_space(path):
    """The names that a task defines."""
    space = {"__name__": "task"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
    return space


def own_inputs(path):
    """The tensors of a call of a task at its own sizes, without elements."""
    import torch

    space = own_space(path)
    with torch.device("meta"):
        return [one for one in space["get_inputs"]() if isinstance(one, torch.Tensor)]


def own_state(path):
    """The parameters and buffers of a task at its own sizes, without elements, by their names in op.toml."""
    import torch

    space = own_space(path)
    with torch.device("meta"):
        model = space["Model"](*space["get_init_inputs"]())
    return {re.sub(r"\W", "_", name): one for name, one in [*model.named_parameters(), *model.named_buffers()]}


def own_lengths(path, op):
    """The axes of a project at the sizes of its task, or why it has none."""
    tensors, state = own_inputs(path), own_state(path)
    called = [name for name in op["inputs"] if name not in state]
    axes, found = op.get("axes", {}), {}
    for name, own in [*zip(called, tensors, strict=False), *state.items()]:
        tensor = op["inputs"].get(name)
        if tensor is None:
            continue
        if len(tensor["shape"]) != own.dim():
            return None, f"`{name}` has {len(tensor['shape'])} axes, and {own.dim()} in the task"
        for axis, length in zip(tensor["shape"], own.shape, strict=True):
            fixed = axes.get(axis, {}).get("value") if isinstance(axis, str) else axis
            if fixed is not None and fixed != length:
                return None, f"`{axis}` of `{name}` is {fixed}, and {length} in the task"
            if fixed is None and found.setdefault(axis, length) != length:
                return None, f"`{axis}` of `{name}` is {found[axis]} elsewhere, and {length} here"
    batch = next(iter(found), None)
    largest = max(one.numel() * one.element_size() for one in tensors)
    while batch is not None and largest > LARGEST and found[batch] % 2 == 0:
        found[batch] //= 2
        largest //= 2
    return found, None


def add_own_workload(path, project):
    """Writes the workload `own`; why there is none otherwise."""
    description = project / "op.toml"
    text = description.read_text(encoding="utf-8")
    lengths, why = own_lengths(path, tomllib.loads(text))
    if lengths is not None:
        written = ", ".join(f"{axis} = {length}" for axis, length in lengths.items())
        purposes = ""
        if whole_package(project):
            # Products and convolutions in float64 take minutes at these lengths; `bench` compares the results that it times.
            text = re.sub(r"\n\[workload\.large\]\n(?:[^\[\n].*\n|\n(?!\[))*", "", text)
            purposes = 'for = ["bench"]\n'
        text += f'\n[workload.own]\naxes = {{ {written} }}\ndtypes = ["f32"]\ndevices = ["cuda"]\n{purposes}'
        description.write_text(text, encoding="utf-8")
    return why


class Rows:
    """The lines of all tasks, written anew after every step."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.of = {row["task"]: row for row in map(json.loads, lines)}

    def save(self, row):
        with self.lock:
            self.of[row["task"]] = row
            unfinished = self.path.with_suffix(".part")
            unfinished.write_text("".join(json.dumps(one) + "\n" for one in self.of.values()), encoding="utf-8")
            unfinished.replace(self.path)

    def add(self, row, step, said):
        self.save(row)
        print(f"{row['task']}: {step} ended with {said['exit']} after {said['seconds']} s", file=sys.stderr, flush=True)


def project_of(options, path):
    return options.out / "projects" / path.stem.lower().replace("_", "-")


def whole_package(project):
    """Whether the package has operators that stay PyTorch's, so that only all of it can be judged and measured."""
    return "forward" in tomllib.loads((project / "op.toml").read_text(encoding="utf-8"))


def as_built(project):
    """The words with which `verify` and `bench` take a project's package for the PyTorch and the CUDA toolkit of the machine."""
    import torch

    release = ".".join(torch.__version__.split(".")[:2])
    return [project, "--toolchain", "system", "--all", "--selector", f"torch:{release} and cuda:{torch.version.cuda} and abi:stable"]


def on_gpu(project):
    """The words that name what `verify` and `bench` take."""
    return as_built(project) if whole_package(project) else ["--device", project]


def gpus():
    """The GPUs that are here, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]


def reached(options, path, rows, steps, gpu=None):
    """Runs the steps of a task that have not been run; whether all of them were reached."""
    row = rows.of[path.stem]
    for step, words in steps:
        if step in row:
            continue
        if time.monotonic() - options.begun > options.seconds:
            return False
        row[step], result = run(options.program, words, gpu, options.step_seconds)
        if result.get("told"):
            row[step]["told"] = result["told"]
        rows.add(row, step, row[step])
    return True


def prepared(options, path, rows, gpu):
    """Makes and judges the project of a task; whether all of it was reached."""
    if path.stem not in rows.of:
        if time.monotonic() - options.begun > options.seconds:
            return False
        row = made(options, path)
        rows.add(row, "new", row)
    project, row = project_of(options, path), rows.of[path.stem]
    if row["exit"] != 0:
        return True
    steps = [("verify", ["verify", project, "--backend", "cpu"])] if options.verify else []
    if (options.measure or options.judge) and not row.get("no_own"):
        # `bench` uses this verdict instead of verifying again.
        threads = max(2, (os.cpu_count() or 2) // options.jobs)
        steps.append(("judge", ["verify", *on_gpu(project), "--threads", threads]))
    return reached(options, path, rows, steps, gpu)


def measured(options, path, rows, gpu):
    """Tunes and measures a task at its own lengths; whether all of it was reached."""
    project, row = project_of(options, path), rows.of[path.stem]
    if row["exit"] != 0 or row.get("no_own") or row.get("judge", {"exit": 0})["exit"] != 0:
        return True
    own = ["--workload", "own"]
    without = [word for rival in options.rivals_left_out for word in ("--without", rival)]
    fills = options.fill > 0 and not whole_package(project)
    steps = [("fill", ["fill", project, *own, "--budget", options.fill])] if fills else []
    steps.append(("bench", ["bench", *on_gpu(project), *own, *without, "--starts", 1]))
    whole = reached(options, path, rows, steps, gpu)
    row["cases"] = [one for one in cases(project) if one["workload"] == "own"]
    rows.save(row)
    return whole


def made(options, path):
    """The line of a task."""
    file, project = options.out / "tasks" / path.name, project_of(options, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    share = EXAMPLE / max(one.numel() for one in own_inputs(path)) if options.own else 0
    for what in (BATCH, EVERYTHING, ALIKE) if options.own else (EVERYTHING, BATCH, ALIKE):
        file.write_text(task(path.read_text(encoding="utf-8"), what, min(share, 1)), encoding="utf-8")
        shutil.rmtree(project, ignore_errors=True)
        words = ["new", "bench/task", project, "--from", f"{file}:Task", "--no-git", "--offline"]
        row, result = run(options.program, words)
        # The sizes of some tasks fit together only as they are.
        if row["exit"] == 0 or "RuntimeError" not in (row["error"][1] or ""):
            break
    told = result.get("from") or {}
    serves = "translation" if "translated" in told else result.get("template")
    if options.own and row["exit"] == 0:
        row["no_own"] = add_own_workload(path, project)
        if row["no_own"] and serves != "translation":
            # The template has other axes than the task.
            shutil.rmtree(project)
            row, result = run(options.program, [*words, "--translate"])
            told, serves = result.get("from") or {}, "translation"
            row["no_own"] = add_own_workload(path, project) if row["exit"] == 0 else None
    return {"task": path.stem, **row, "serves": serves, "kernels": told.get("kernels", []), "notes": told.get("notes", [])}


def table(rows):
    """Counts in Markdown, then what failed."""
    serves = collections.Counter(row["serves"] for row in rows if row["exit"] == 0)
    lines = [f"{len(rows)} tasks: " + ", ".join(f"{count} by {name}" for name, count in serves.most_common())]
    judged = [row for row in rows if "verify" in row]
    if judged:
        lines.append(f"verified on the processor: {sum(row['verify']['exit'] == 0 for row in judged)} of {len(judged)}")
    ratios = {}
    for row in rows:
        for case in row.get("cases", []):
            shown = [f"{case['seconds'] * 1e6:.1f} us"] if case["seconds"] else []
            for one in case["ratios"]:
                ratios.setdefault((case["regime"], one["versus"]), []).append(one["ratio"])
                shown.append(f"{one['ratio']:.2f}x [{one['low']:.2f}, {one['high']:.2f}] of {one['versus']}")
            if case["copy_fraction"] is not None:
                shown.append(f"{case['copy_fraction']:.0%} of a copy")
            lines.append(f"- {row['task']}, {case['regime']}: {', '.join(shown)}")
        if row.get("no_own"):
            lines.append(f"- {row['task']}: not at its own lengths: {row['no_own']}")
        lines += [f"- {row['task']}: {told}" for told in row.get("bench", {}).get("told", [])]
    for (regime, rival), found in sorted(ratios.items(), key=lambda one: (one[0][0], RIVALS.index(one[0][1]))):
        lines.append(f"{regime}, over {rival}: geometric mean {geomean(found):.3f}x of {len(found)}")
    for row in rows:
        nothing = {"exit": 0}
        for step, said in (("new", row), *((name, row.get(name, nothing)) for name in ("verify", "judge", "fill", "bench"))):
            if said["exit"] != 0:
                code, message = said["error"]
                lines.append(f"- {row['task']}: {step}: {code}: {' '.join((message or '').split())[:300]}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=pathlib.Path, help="a folder with tasks of KernelBench")
    parser.add_argument("--program", default="kernelwright", help="default: the one in PATH")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder for projects and results, made if missing")
    parser.add_argument("--without", nargs="*", default=[], metavar="WORD", help="leave out tasks with these words in their name")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="only tasks with one of these words in their name")
    parser.add_argument("--verify", action="store_true", help="verify the projects on the processor")
    parser.add_argument("--own", action="store_true", help="add a workload of the task's own lengths")
    parser.add_argument("--measure", action="store_true", help="measure that workload on a GPU")
    parser.add_argument("--judge", action="store_true", help="only judge it on a GPU; --measure then goes on")
    parser.add_argument("--fill", type=float, default=10.0, help="seconds of search before that; 0: none")
    parser.add_argument("--rivals-left-out", nargs="*", default=["compile-max"], help="rivals that `bench` leaves out")
    parser.add_argument("--jobs", type=int, default=1, help="tasks that are made and judged side by side")
    parser.add_argument("--step-seconds", type=float, default=600.0, help="interrupt `verify`, `fill` or `bench` of a task after these")
    parser.add_argument("--seconds", type=float, default=1e6, help="no step begins after these; default: no limit")
    options = parser.parse_args()
    if options.step_seconds <= 0:
        parser.error("--step-seconds is more than 0")
    if (options.measure or options.judge) and not options.own:
        parser.error("--measure and --judge need --own")
    if (options.measure or options.judge) and not gpus():
        parser.error("--measure and --judge need a GPU")
    options.begun = time.monotonic()
    program = shutil.which(options.program)
    if program is None:
        parser.error(f"program not found: {options.program}")
    options.program = program
    options.out.mkdir(parents=True, exist_ok=True)
    rows = Rows(options.out / "kernelbench.jsonl")
    has = lambda words, path: any(word.lower() in path.stem.lower() for word in words)
    paths = [path for path in sorted(options.tasks.glob("*.py")) if not has(options.without, path)]
    paths = [path for path in paths if not options.only or has(options.only, path)]
    if not paths:
        parser.error(f"no such tasks in `{options.tasks}`: name a folder of KernelBench, as KernelBench/KernelBench/level2")
    here = gpus() if options.measure or options.judge else []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        turns = itertools.cycle(here or [None])
        left = sum(pool.map(lambda path, gpu: not prepared(options, path, rows, gpu), paths, turns))
    if options.measure and here:
        free = queue.SimpleQueue()
        for gpu in here:
            free.put(gpu)

        def on_one(path):
            gpu = free.get()
            try:
                return measured(options, path, rows, gpu)
            finally:
                free.put(gpu)

        # One at a time on a GPU, which is slower while it judges others.
        with concurrent.futures.ThreadPoolExecutor(len(here)) as pool:
            left += sum(not whole for whole in pool.map(on_one, [path for path in paths if path.stem in rows.of]))
    print(table(list(rows.of.values())))
    if left:
        print(f"{left} tasks are left for the next start", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
