#!/usr/bin/env python3
"""The tasks of KernelBench as kernels: how many `new --from` makes a project of, and how many of those are verified.

    git clone https://github.com/ScalingIntelligence/KernelBench
    python3 bench/kernelbench.py KernelBench/KernelBench/level2 --program target/release/kernelwright --out FOLDER
    python3 bench/kernelbench.py KernelBench/KernelBench/level1 --out FOLDER --without conv pool matmul attention --verify

The tasks' own sizes take gigabytes, so numbers at the top of a file are made smaller: a batch is 2, heights and widths are 12,
and counts of channels and features from 48 on are divided, all alike, so that they still fit together. Where they do not, only
the batch is smaller, or the batch is divided like the others. `new --from` then gets the task's `Model` as a class without arguments, with its example.

FOLDER/kernelbench.jsonl has a line for each task: `task`, `exit`, `seconds`, `serves` (the template, or `translation`),
`kernels`, `notes`, `error` (code and message), and with --verify the same of `verify --backend cpu`. A second start goes on
where the first one ended. Prints a table.
"""

import argparse
import ast
import collections
import json
import pathlib
import shutil
import subprocess
import sys
import time

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


def smaller(name, value, what):
    """The size that a number at the top of a task gets."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if name in BATCHES and what != ALIKE:
        return 2
    if what == BATCH:
        return value
    if name in PLACES:
        return min(value, 12)
    for least, divisor in ((1024, 16), (200, 8), (48, 4)):
        if value >= least:
            return min(value // divisor, 512)
    return value


def task(text, what):
    """The text of a task with smaller sizes, as a class without arguments that has an example."""
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
            value = tuple(smaller(getattr(name, "id", ""), one, what) for name, one in zip(names, value, strict=True))
        else:
            value = smaller(getattr(target, "id", ""), value, what)
        node.value = ast.parse(repr(value), mode="eval").body
    return ast.unparse(ast.fix_missing_locations(tree)) + WRAPPED


def run(program, words):
    """Exit status, seconds, the result and the first error of a command."""
    begun = time.monotonic()
    done = subprocess.run([program, *map(str, words), "--message-format", "json"], capture_output=True, text=True, check=False)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    error = next((one for one in events if one.get("event") == "error"), None)
    result = next((one for one in reversed(events) if one.get("event") == "result"), {})
    said = {"exit": done.returncode, "seconds": round(time.monotonic() - begun, 1)}
    if done.returncode != 0:
        said["error"] = [error["code"], error["message"]] if error else [None, done.stderr[-500:]]
    return said, result


def made(options, path):
    """The line of a task."""
    name = path.stem.lower().replace("_", "-")
    file, project = options.out / "tasks" / path.name, options.out / "projects" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    for what in (EVERYTHING, BATCH, ALIKE):
        file.write_text(task(path.read_text(encoding="utf-8"), what), encoding="utf-8")
        shutil.rmtree(project, ignore_errors=True)
        row, result = run(options.program, ["new", "bench/task", project, "--from", f"{file}:Task", "--no-git", "--offline"])
        # The sizes of some tasks fit together only as they are.
        if row["exit"] == 0 or "RuntimeError" not in (row["error"][1] or ""):
            break
    told = result.get("from") or {}
    serves = "translation" if "translated" in told else result.get("template")
    return {"task": path.stem, **row, "serves": serves, "kernels": told.get("kernels", []), "notes": told.get("notes", [])}


def table(rows):
    """Counts in Markdown, then what failed."""
    serves = collections.Counter(row["serves"] for row in rows if row["exit"] == 0)
    lines = [f"{len(rows)} tasks: " + ", ".join(f"{count} by {name}" for name, count in serves.most_common())]
    judged = [row for row in rows if "verify" in row]
    if judged:
        lines.append(f"verified on the processor: {sum(row['verify']['exit'] == 0 for row in judged)} of {len(judged)}")
    for row in rows:
        for step, said in (("new", row), ("verify", row.get("verify", {"exit": 0}))):
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
    options = parser.parse_args()
    program = shutil.which(options.program)
    if program is None:
        parser.error(f"program not found: {options.program}")
    options.program = program
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / "kernelbench.jsonl"
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    rows = {row["task"]: row for row in map(json.loads, lines)}
    has = lambda words, path: any(word.lower() in path.stem.lower() for word in words)
    paths = [path for path in sorted(options.tasks.glob("*.py")) if not has(options.without, path)]
    paths = [path for path in paths if not options.only or has(options.only, path)]
    if not paths:
        parser.error(f"no such tasks in `{options.tasks}`: name a folder of KernelBench, as KernelBench/KernelBench/level2")
    for path in paths:
        row = rows.get(path.stem) or made(options, path)
        if options.verify and row["exit"] == 0 and "verify" not in row:
            row["verify"], _ = run(program, ["verify", options.out / "projects" / path.stem.lower().replace("_", "-"), "--backend", "cpu"])
        rows[path.stem] = row
        unfinished = record.with_suffix(".part")
        unfinished.write_text("".join(json.dumps(one) + "\n" for one in rows.values()), encoding="utf-8")
        unfinished.replace(record)
        print(f"{path.stem}: {row['exit']}, {row['serves']}, {row['seconds']} s", file=sys.stderr, flush=True)
    print(table(list(rows.values())))


if __name__ == "__main__":
    main()
