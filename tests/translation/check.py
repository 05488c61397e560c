#!/usr/bin/env python3
"""Translates functions and their gradients, compiles the code for the processor, and compares it with PyTorch.

A function with operators that stay PyTorch's (parts.py) runs as its package does: PyTorch's operators, and the compiled regions.

    PYTHONPATH=SITE python3 tests/translation/check.py --emit target/debug/examples/translate --seed 7 --drawn 8

`--emit` is the example `translate` of kernel-plan, `--drawn` how many functions are drawn of the seed, `--share K/N` takes the K-th
of N parts of the functions in the files beside this script, `--functions` names some of them, `--seconds` ends the run early: what is
not reached then is said. SITE has PyTorch.

With --gpu it is the code for the GPU that is compiled and compared, with default settings. This needs CuPy, which brings NVRTC; functions
with operators that stay PyTorch's are left out.

Every function runs at the lengths of its example, at length one and at odd lengths, in float32, and once in pieces. Results are
compared with those of PyTorch in float64, as closely as PyTorch's own float32 allows. Ends with 1 if one is wrong, does not compile, or
should have a translation and has none.
"""
# pyright: basic

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "kernel-builder" / "harness"), str(HERE)]

import drawn  # noqa: E402
import torch  # noqa: E402
from on_gpu import OnGpu  # noqa: E402
from operation import Operation, Wrong  # noqa: E402

#: Functions of the files that have no translation, or no gradient, with the words of the reason.
WITHOUT = {
    "argmax_over_one": "no result depends",
    "argmin_over_last": "no result depends",
}


class Parts:
    """A function whose parts are translated: the steps of its package, with the compiled code of its regions as operators."""

    def __init__(self, name: str, files: dict, function) -> None:
        self.name, self.function = name, function
        self.whole = Operation(name, {"op": files["op"], "body": ""}, function)
        self.regions = [Operation(one["name"], one, None) for one in files["regions"]]
        space: dict = {"__name__": name}
        exec(compile(files["forward"], f"{name}_forward.py", "exec"), space)
        self.forward = space[name]

    def compiled(self, folder: Path) -> None:
        for one in self.regions:
            one.compiled(folder)

    def operator(self, region: Operation):
        """A region as the package has it: it takes contiguous tensors, and finds the lengths in their shapes."""

        def called(*tensors):
            lengths: dict[str, int] = {}
            for one, tensor in zip(region.op["inputs"].values(), tensors):
                if not tensor.is_contiguous():
                    raise Wrong(f"`{region.name}` gets a tensor that is not contiguous")
                for axis, length in zip(one["shape"], tensor.shape):
                    if lengths.setdefault(axis, length) != length:
                        raise Wrong(f"`{region.name}` gets {axis} = {length} beside {lengths[axis]}")
            return region.run(list(tensors), lengths, 1)

        results = len(region.op["outputs"])
        return lambda *tensors: called(*tensors)[0] if results == 1 else tuple(called(*tensors))

    def compare(self) -> int:
        ops = argparse.Namespace(**{one.name: self.operator(one) for one in self.regions})
        calls = 0
        for lengths in self.whole.tried():
            inputs = self.whole.tensors("inputs", lengths)
            exact = self.whole.reference([one.double() if one.is_floating_point() else one for one in inputs])
            usual = self.whole.reference(inputs)
            with torch.no_grad():
                found = self.forward(ops, *inputs)
            found = found if isinstance(found, tuple) else (found,)
            for name, own, one, two in zip(self.whole.op["outputs"], found, exact, usual, strict=True):
                self.whole.judge(f"`{name}` at {lengths}", own, one, two)
            calls += 1
        return calls


def subjects(path: Path) -> list[str]:
    found = ast.parse(path.read_text(encoding="utf-8")).body
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [one.name for one in found if isinstance(one, kinds) and not one.name.startswith(("_", "example_"))]


def exported(path: Path, name: str) -> dict:
    """The harness's report, with the functions that are the references."""
    from subject import Subject
    from translation import translation

    subject = Subject(str(path), name)
    report = translation(subject, lambda _: None)
    found = report["translation"]
    if found is None:
        return {"name": name, "refused": report["untranslated"]["what"]}
    text = path.read_text(encoding="utf-8") + found["reference"]["text"]
    if found["gradient"]:
        text += found["gradient"]["reference"]["text"]
    space: dict = {"__name__": name}
    exec(compile(text, str(path), "exec"), space)
    gradient = found["gradient"]
    return {
        "name": re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(),
        "graph": found["graph"],
        "gradient": gradient and gradient["graph"],
        "ungraded": found["ungraded"],
        "function": space[found["reference"]["function"]],
        "backward": gradient and space[gradient["reference"]["function"]],
    }


def translated(emit: str, reports: list[dict]) -> list[dict]:
    graphs = [{key: one[key] for key in ("name", "graph", "gradient")} for one in reports]
    done = subprocess.run([emit], input=json.dumps(graphs), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{emit} failed with {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


class Table:
    """What came of each function."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.right = self.calls = 0
        self.is_over = False

    def refuse(self, name: str, why: str) -> None:
        self.wrong.append(name)
        print(f"wrong: {name}: {why}", flush=True)

    def add(self, operation: Operation, compiling) -> None:
        try:
            compiling.result()
            self.calls += operation.compare()
            self.right += 1
        except Wrong as wrong:
            self.refuse(operation.name, str(wrong))
        except (RuntimeError, IndexError) as error:
            if "CUDA" in str(error):
                # Nothing runs on the GPU in this process after that.
                self.refuse(operation.name, f"it fails on the GPU: {error}")
                self.is_over = True
                return
            self.refuse(operation.name, f"its reference fails: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emit", required=True, help="the example `translate` of kernel-plan")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drawn", type=int, default=0, help="how many functions are drawn")
    parser.add_argument("--most", type=int, default=14, help="most operators of a drawn function")
    parser.add_argument("--share", default="0/1", help="K/N: the K-th of N parts of the functions of the files; N 0: none")
    parser.add_argument("--functions", nargs="+", help="these functions of the files")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--gpu", action="store_true", help="compare the code for the GPU")
    parser.add_argument("--keep", type=Path, help="a folder for the sources, which is kept")
    options = parser.parse_args()
    begun = time.monotonic()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    table = Table()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "drawn_functions.py").write_text(drawn.file(options.seed, options.drawn, options.most), encoding="utf-8")
        wanted = [(folder / "drawn_functions.py", name) for name in subjects(folder / "drawn_functions.py")]
        part, parts = map(int, options.share.split("/"))
        files = [HERE / f"{name}.py" for name in ("models", "level1", "parts", "transposed")]
        beside = [(path, name) for path in files for name in subjects(path)]
        if options.functions:
            wanted += [one for one in beside if one[1] in options.functions]
        elif parts:
            wanted += beside[part % parts :: parts]
        left = []
        # In rounds, so that a run that has to end has compared what it exported.
        for start in range(0, len(wanted), 6):
            chosen = wanted[start : start + 6]
            if table.is_over or time.monotonic() - begun > options.seconds:
                left += [name for _, name in chosen]
                continue
            check(chosen, options.emit, folder, table, options.gpu)
    took = time.monotonic() - begun
    print(f"seed {options.seed}: {table.right} right in {table.calls} calls, {len(table.wrong)} wrong, {took:.0f} s")
    if left:
        print(f"not reached: {', '.join(left)}")
    sys.exit(1 if table.wrong else 0)


def check(chosen: list, emit: str, folder: Path, table: Table, gpu: bool) -> None:
    OnGpu.emit = emit
    one_kernel = OnGpu if gpu else Operation
    reports = []
    for path, name in chosen:
        report = exported(path, name)
        if "refused" in report:
            table.refuse(name, f"refused: {report['refused']}")
        else:
            reports.append(report)
    operations = []
    for report, answer in zip(reports, translated(emit, reports)):
        name = report["name"]
        gradient = answer.get("gradient") or {"refused": report["ungraded"]}
        if "refused" in answer["forward"]:
            table.refuse(name, f"refused: {answer['forward']['refused']} ({answer['forward']['op_name']})")
            continue
        kind = Parts if "regions" in answer["forward"] else one_kernel
        if gpu and kind is Parts:
            continue
        operations.append(kind(name, answer["forward"], report["function"]))
        if kind is Parts:
            continue
        if "refused" not in gradient:
            operations.append(one_kernel(f"{name}_backward", gradient, report["backward"]))
        elif WITHOUT.get(name, "-") not in gradient["refused"]:
            print(f"no gradient: {name}: {gradient['refused']} ({gradient.get('op_name')})", flush=True)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        compiling = [pool.submit(one.compiled, folder) for one in operations]
        for one, done in zip(operations, compiling):
            if not table.is_over:
                table.add(one, done)


if __name__ == "__main__":
    main()
