"""A translated function on a GPU: its code is compiled by NVRTC and started as [launch] of op.toml says.

Owns: memory, arguments and launches. Never: decides what is right; `operation` does.
"""
# pyright: basic

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import torch
from operation import GUARD, MARK, ROOT, Operation, Wrong

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


def launches(emit: str, op: str, lengths: list[dict[str, int]]) -> list[dict | None]:
    """The kernel launches at each of the lengths; None for lengths that op.toml does not take."""
    request = json.dumps([{"op": op, "lengths": lengths}])
    done = subprocess.run([emit], input=request, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Wrong(f"its launch has no value: {done.stderr[-500:]}")
    return json.loads(done.stdout)[0]


class OnGpu(Operation):
    """The same with its code for the GPU."""

    emit = ""

    def compiled(self, folder: Path) -> None:
        import cupy

        shims = folder / "include"
        if not (shims / "cstdint").exists():
            shims.mkdir(exist_ok=True)
            # Another thread may be reading it.
            unfinished = shims / f"cstdint.{threading.get_ident()}"
            unfinished.write_text(CSTDINT, encoding="utf-8")
            unfinished.replace(shims / "cstdint")
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
