"""Whether every CUDA build of examples/rms-norm-strided computes the right thing on the GPU at hand, whatever CUDA its torch has.

`kernelwright verify` judges a build with a torch of the same major version of CUDA only, for that is where a client loads
it. A driver of CUDA 13 runs the machine code of CUDA 12 as well, and the stable ABI is the same, so one machine can run
them all: each build in a process of its own, with the libcudart of its release loaded first.

    kernelwright build examples/rms-norm-strided
    python3 bench/every_cuda.py examples/rms-norm-strided --runtimes FOLDER [FOLDER ...] > bench/results/DATE-GPU-every-cuda.json

FOLDERs hold `libcudart.so.12` and `libcudart.so.13` (a toolkit's lib, or that of the wheel nvidia-cuda-runtime); what torch
brings itself need not be named. Inputs are drawn anew for every case; the reference is computed in float64. The error is in
units of the rounding of the output's type at the value that is expected: 0.5 is a correctly rounded result. Ends with 1
when an output is not finite or further off than 1 such unit; than 8 in float32, which is also what the kernel calculates in.
"""

import argparse
import ctypes
import datetime
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import machine

SHAPES = [(1, 1), (3, 17), (128, 4096), (1024, 2048), (512, 3072), (7, 5120), (33, 12_289), (2, 65_536)]
DTYPES = ["float32", "float16", "bfloat16"]
#: Digits of the significand, the hidden one included.
DIGITS = {"float32": 24, "float16": 11, "bfloat16": 8}
LIMIT = {"float32": 8.0, "float16": 1.0, "bfloat16": 1.0}


def judge(package: Path, runtimes: list[Path]) -> None:
    """Runs one build in this process; a JSON object on standard output."""
    import torch

    library = next(package.glob("*.so"))
    needed = {name for name in ("libcudart.so.12", "libcudart.so.13") if name.encode() in library.read_bytes()}
    for name in needed:
        place = next((folder / name for folder in runtimes if (folder / name).exists()), None)
        ctypes.CDLL(str(place) if place else name, mode=ctypes.RTLD_GLOBAL)
    spec = importlib.util.spec_from_file_location("judged", package / "__init__.py", submodule_search_locations=[str(package)])
    kernel = importlib.util.module_from_spec(spec)
    sys.modules["judged"] = kernel
    spec.loader.exec_module(kernel)
    cases = []
    for dtype in DTYPES:
        for rows, hidden in SHAPES:
            torch.manual_seed(rows * 1_000_003 + hidden)
            like = {"device": "cuda", "dtype": getattr(torch, dtype)}
            x, weight = torch.randn(rows, hidden, **like) * 3, torch.randn(hidden, **like)
            out = kernel.rms_norm(x, weight, 1e-6)
            exact = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()
            tiny = torch.finfo(like["dtype"]).tiny
            unit = 2.0 ** (exact.abs().clamp_min(tiny).log2().floor() - (DIGITS[dtype] - 1))
            error = ((out.double() - exact).abs() / unit).max().item()
            right = bool(torch.isfinite(out).all()) and error <= LIMIT[dtype]
            cases.append({"dtype": dtype, "rows": rows, "hidden": hidden, "error_in_roundings": round(error, 3), "right": right})
    device = torch.cuda.get_device_properties(0)
    print(json.dumps({
        "library": library.name,
        "runtimes": sorted(needed),
        "torch": torch.__version__,
        "device": device.name,
        "capability": f"{device.major}.{device.minor}",
        "largest_error_in_roundings": max(case["error_in_roundings"] for case in cases),
        "right": all(case["right"] for case in cases),
        "cases": cases,
    }))


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("project", type=Path)
    reader.add_argument("--runtimes", type=Path, nargs="*", default=[], help="folders with libcudart.so.MAJOR")
    reader.add_argument("--one", help=argparse.SUPPRESS)
    options = reader.parse_args()
    artifacts = options.project / ".kernelwright/artifacts"
    if options.one:
        return judge(artifacts / options.one, options.runtimes)
    variants = sorted(folder.name for folder in artifacts.glob("*-cu1*") if folder.is_dir())
    if not variants:
        sys.exit(f"{artifacts} holds no build for CUDA: run `kernelwright build` first")
    found = {}
    for variant in variants:
        command = [sys.executable, __file__, str(options.project), "--one", variant, "--runtimes", *map(str, options.runtimes)]
        done = subprocess.run(command, capture_output=True, text=True)
        found[variant] = json.loads(done.stdout) if done.returncode == 0 else {"right": False, "failed": done.stderr[-2000:]}
        # Where the sources were; null outside of git.
        found[variant]["commit"] = json.loads((artifacts / f"{variant}.json").read_text()).get("commit")
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    print(json.dumps({"date": datetime.date.today().isoformat(), "machine": machine.described(), "driver": driver.stdout.strip(), "variants": found}, indent=1))
    if not all(one["right"] for one in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
