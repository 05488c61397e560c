"""A translated function on the processor: its code is compiled, called and compared with PyTorch.

Owns: which lengths and values are tried, and how far a result may be off. Never: translates anything.
"""
# pyright: basic

from __future__ import annotations

import ctypes
import os
import subprocess
import tomllib
import warnings
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
#: How a result may differ: this often what PyTorch's float32 loses, and this share of the largest result.
OFTEN, SHARE = 64.0, 3e-5
#: Elements on both sides of a result, and what is in them.
GUARD, MARK = 4096, 77
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-mavx2", "-mfma", "-mf16c", "-ffp-contract=off"]
KINDS = {
    "f32": (torch.float32, "Float32"), "f16": (torch.float16, ""), "bf16": (torch.bfloat16, ""), "i64": (torch.int64, ""),
    "i32": (torch.int32, ""), "i16": (torch.int16, ""), "i8": (torch.int8, ""), "bool": (torch.bool, ""),
}  # fmt: skip
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


class Wrong(Exception):  # noqa: N818
    """What is wrong with a translation."""


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
