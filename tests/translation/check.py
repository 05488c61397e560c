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
import ctypes
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "kernel-builder" / "harness"), str(HERE)]

import drawn  # noqa: E402
import torch  # noqa: E402

#: Functions of the files that have no translation, or no gradient, with the words of the reason.
WITHOUT = {
    "argmax_over_one": "no result depends",
    "argmin_over_last": "no result depends",
}
#: How a result may differ: this often what PyTorch's float32 loses, and this share of the largest result.
OFTEN, SHARE = 64.0, 3e-5
#: Elements on both sides of a result, and what is in them.
GUARD, MARK = 4096, 77
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-mavx2", "-mfma", "-mf16c", "-ffp-contract=off"]
KINDS = {
    "f32": (torch.float32, "Float32"), "f16": (torch.float16, ""), "bf16": (torch.bfloat16, ""), "i64": (torch.int64, ""),
    "i32": (torch.int32, ""), "i16": (torch.int16, ""), "i8": (torch.int8, ""), "bool": (torch.bool, ""),
}  # fmt: skip
#: What NVRTC has no header for.
CSTDINT = """#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
"""
SOURCE = """#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>
#include <immintrin.h>
enum class Element : int {{ kBF16, kF16, kF32, kF64, kF8E4M3, kF8E5M2, kI8, kI16, kI32, kI64, kBOOL }};
struct {camel}Call {{ {fields} }};
namespace {{
#define KERNEL_ISA avx2
#define KERNEL_TARGET
#define KERNEL_LANES 8
#define KERNEL_X86 256
#include "vectors.h"
{body}
}}
extern "C" void run_{name}(void** tensors, const int64_t* lengths, int64_t first, int64_t last) {{
    {camel}Call call{{}};
    {filled}
    avx2::pieces<avx2::Float32>(call, first, last);
}}
"""


def camel(name: str) -> str:
    """As `host::camel` of kernel-plan."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


class Operation:
    """A translated function, or a gradient: what op.toml says of it, and its compiled code."""

    def __init__(self, name: str, files: dict, function) -> None:
        self.name, self.files, self.function = name, files, function
        self.op = tomllib.loads(files["op"])
        self.axes = self.op.get("axes", {})
        self.varying = [axis for axis, one in self.axes.items() if one["type"] == "var"]

    def source(self) -> str:
        tensors = [*self.op["outputs"], *self.op["inputs"]]
        fields = " ".join(f"void* {one};" for one in self.op["outputs"])
        fields += " " + " ".join(f"const void* {one};" for one in self.op["inputs"])
        fields += " " + " ".join(f"int64_t {axis};" for axis in self.axes)
        filled = [f"call.{one} = tensors[{place}];" for place, one in enumerate(tensors)]
        filled += [f"call.{axis} = lengths[{place}];" for place, axis in enumerate(self.axes)]
        return SOURCE.format(
            camel=camel(self.name), name=self.name, fields=fields, filled=" ".join(filled), body=self.files["body"]
        )

    def compiled(self, folder: Path) -> None:
        source = folder / f"{self.name}.cpp"
        source.write_text(self.source(), encoding="utf-8")
        shared = ROOT / "templates" / "_shared" / "cpu"
        library = folder / f"{self.name}.so"
        command = [os.environ.get("CXX", "c++"), *FLAGS, f"-I{shared}", str(source), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Wrong(f"it does not compile:\n{done.stderr[-3000:]}")
        self.library = ctypes.CDLL(str(library))

    def length(self, axis: str, lengths: dict[str, int]) -> int:
        one = self.axes[axis]
        return one["value"] if one["type"] == "const" else lengths[axis]

    def tried(self) -> list[dict[str, int]]:
        """Lengths of the axes: one, odd, more than a vector and more than a piece, none."""
        found = []
        for row in ([1] * 5, [7, 3, 5, 2, 3], [3, 261, 5, 4, 2], [2, 33, 70, 3, 2], [0] * 5):
            lengths = {}
            for place, axis in enumerate(self.varying):
                one, length = self.axes[axis], row[min(place, 4)]
                by = one.get("multiple-of", 1)
                lengths[axis] = max(length * by, one.get("min", 0))
            if lengths not in found:
                found.append(lengths)
        return found

    def tensors(self, section: str, lengths: dict[str, int]) -> list[torch.Tensor]:
        found = []
        for one in self.op[section].values():
            shape = [self.length(axis, lengths) for axis in one["shape"]]
            kind = torch.float32 if one["dtype"] == "T" else KINDS[one["dtype"]][0]
            if one.get("seed"):
                found.append(torch.randint(-(2**63), 2**63 - 1, shape))
            elif kind == torch.bool:
                found.append(torch.rand(shape) > 0.5)
            elif kind.is_floating_point:
                drawn_values = torch.randn(shape).to(kind)
                found.append(drawn_values.abs() if one.get("non-negative") else drawn_values)
            else:
                # Indexes among them are within every axis of at least two.
                found.append(torch.randint(0, 2, shape, dtype=kind))
        return found

    def pieces(self, lengths: dict[str, int]) -> int:
        """What `over` of [cpu] comes to."""
        names = {axis: self.length(axis, lengths) for axis in self.axes}
        functions = {"ceil_div": lambda a, b: -(-a // b), "max": max, "min": min}
        return int(eval(self.op["cpu"]["over"].replace(" / ", " // "), {"__builtins__": {}}, {**names, **functions}))

    def run(self, inputs: list, lengths: dict[str, int], cuts: int) -> list[torch.Tensor]:
        """The results, each written into the middle of memory that nothing else may change."""
        shapes = self.tensors("outputs", lengths)
        memory = [torch.full((one.numel() + 2 * GUARD,), MARK, dtype=one.dtype) for one in shapes]
        outputs = [one[GUARD:-GUARD].view(shape.shape) for one, shape in zip(memory, shapes)]
        pointers = [one.data_ptr() for one in [*outputs, *inputs]]
        tensors = (ctypes.c_void_p * len(pointers))(*pointers)
        sizes = (ctypes.c_int64 * max(1, len(self.axes)))(*[self.length(axis, lengths) for axis in self.axes])
        called = getattr(self.library, f"run_{self.name}")
        over = self.pieces(lengths)
        borders = sorted({over * place // cuts for place in range(cuts + 1)})
        for first, last in zip(borders, borders[1:]):
            called(tensors, sizes, ctypes.c_int64(first), ctypes.c_int64(last))
        for name, one in zip(self.op["outputs"], memory):
            mark = torch.full((GUARD,), MARK, dtype=one.dtype)
            if not (torch.equal(one[:GUARD], mark) and torch.equal(one[-GUARD:], mark)):
                raise Wrong(f"it writes beside `{name}` at {lengths}")
        return outputs

    def compare(self) -> int:
        """How many calls were compared."""
        calls = 0
        for lengths in self.tried():
            inputs = self.tensors("inputs", lengths)
            exact = self.reference([one.double() if one.is_floating_point() else one for one in inputs])
            usual = self.reference(inputs)
            for cuts in (1, 3):
                found = self.run(inputs, lengths, cuts)
                for name, own, one, two in zip(self.op["outputs"], found, exact, usual):
                    self.judge(f"`{name}` at {lengths}", own, one, two)
                calls += 1
        return calls

    def reference(self, inputs: list) -> list[torch.Tensor]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self.function(*[one.clone() for one in inputs])
        return [one.detach() for one in (found if isinstance(found, (tuple, list)) else [found])]

    def judge(self, what: str, own, exact, usual) -> None:
        if list(own.shape) != list(exact.shape):
            raise Wrong(f"{what} has the shape {list(own.shape)}, and PyTorch's is {list(exact.shape)}")
        if not own.is_floating_point():
            if not torch.equal(own, usual.to(own.dtype)):
                raise Wrong(f"{what} differs: {own.flatten()[:8]} and {usual.flatten()[:8]}")
            return
        own, exact, usual = own.double(), exact.double(), usual.double()
        # What is beyond float32, or NaN, has to be so here where it is so in PyTorch's float32 and in float64.
        finite = exact.isfinite() & usual.isfinite() & (exact.abs() < 1e30)
        strange = exact.isnan() & usual.isnan()
        if (own.isnan() != strange)[strange | finite].any():
            raise Wrong(f"{what} has NaN elsewhere than PyTorch")
        if not finite.any():
            return
        own, exact, usual = own[finite], exact[finite], usual[finite]
        allowed = OFTEN * (usual - exact).abs().max() + SHARE * exact.abs().max() + 1e-6
        error = (own - exact).abs().max()
        if not error <= allowed:
            place = int((own - exact).abs().argmax())
            raise Wrong(f"{what}: {own[place]:.8g}, exact {exact[place]:.8g}, PyTorch {usual[place]:.8g}, allowed {allowed:.3g}")


class OnGpu(Operation):
    """The same with its code for the GPU."""

    emit = ""

    def compiled(self, folder: Path) -> None:
        import cupy

        shims = folder / "include"
        shims.mkdir(exist_ok=True)
        (shims / "cstdint").write_text(CSTDINT, encoding="utf-8")
        lengths = self.tried()
        self.launches = dict(zip(map(str, lengths), launches(self.emit, self.files["op"], lengths)))
        shared = ROOT / "templates" / "_shared" / "cuda"
        toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
        options = ("-std=c++17", f"-I{shims}", f"-I{shared}", f"-I{toolkit}", f"-I{toolkit / 'cccl'}")
        self.modules = {}
        for launch in filter(None, self.launches.values()):
            key = (*launch["defines"], *sorted(kernel["name"] for kernel in launch["kernels"]))
            if key in self.modules or not launch["kernels"]:
                continue
            names = sorted({kernel["name"] for kernel in launch["kernels"]})
            module = cupy.RawModule(code=self.files["cuda"], options=(*options, *launch["defines"]), name_expressions=names)
            try:
                self.modules[key] = {name: module.get_function(name) for name in names}
            except cupy.cuda.compiler.CompileException as error:
                raise Wrong(f"it does not compile:\n{error}") from error

    def run(self, inputs: list, lengths: dict[str, int], cuts: int) -> list[torch.Tensor]:
        """The results; cuts are those of the processor's code, so that a GPU runs the same twice."""
        import cupy
        import numpy

        launch = self.launches[str(lengths)]
        if launch is None:
            raise Wrong(f"op.toml does not take {lengths}")
        outputs = dict(zip(self.op["outputs"], self.tensors("outputs", lengths)))
        memory = {
            name: torch.full((one.numel() + 2 * GUARD,), MARK, dtype=one.dtype, device="cuda")
            for name, one in outputs.items()
        }
        placed = {name: one[GUARD:-GUARD] for name, one in memory.items()}
        placed.update({name: one.contiguous().cuda() for name, one in zip(self.op["inputs"], inputs)})
        for one in launch["workspaces"]:
            # Not zeros: what is not written must not be read.
            made = torch.empty(one["bytes"], dtype=torch.uint8, device="cuda").fill_(0 if one["zero"] else 0xA5)
            placed[one["name"]] = made
        kinds = {"i32": numpy.int32, "i64": numpy.int64, "bool": numpy.bool_, "f32": numpy.float32, "f64": numpy.float64}
        key = (*launch["defines"], *sorted(kernel["name"] for kernel in launch["kernels"]))
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        with stream:
            for kernel in launch["kernels"]:
                arguments = []
                for one in kernel["arguments"]:
                    (kind, value), = one.items()
                    arguments.append(numpy.uintp(placed[value].data_ptr()) if kind == "pointer" else kinds[kind](value))
                self.modules[key][kernel["name"]](
                    tuple(kernel["grid"]), tuple(kernel["block"]), tuple(arguments), shared_mem=kernel["shared"]
                )
        torch.cuda.synchronize()
        for name, one in memory.items():
            if not bool((torch.cat((one[:GUARD], one[-GUARD:])) == MARK).all()):
                raise Wrong(f"it writes beside `{name}` at {lengths}")
        return [placed[name].view(one.shape).cpu() for name, one in outputs.items()]


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


class Wrong(Exception):  # noqa: N818
    """What is wrong with a translation."""


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


def launches(emit: str, op: str, lengths: list[dict[str, int]]) -> list[dict | None]:
    """What is started on a GPU at each of the lengths."""
    request = json.dumps([{"op": op, "lengths": lengths}])
    done = subprocess.run([emit], input=request, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Wrong(f"its launch has no value: {done.stderr[-500:]}")
    return json.loads(done.stdout)[0]


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
