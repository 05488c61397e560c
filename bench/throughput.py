#!/usr/bin/env python3
"""How many candidates of one operation are compiled, verified and timed in a minute, by `kernelwright screen` and by the
loop that is usual otherwise: torch's `load_inline` in many processes, then a comparison with eager PyTorch.

Both work on the same candidates: settings of [tune] of examples/rms-norm-device, on one workload, in one run on one
machine. The usual way takes a minute a candidate, so it gets the first of them only (--usual), and rates are compared.
Needs an NVIDIA GPU, PyTorch with CUDA, and for the usual way nvcc and ninja.

    python bench/throughput.py --program target/release/kernelwright --out record.json
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROJECT = ROOT / "examples" / "rms-norm-device"
WORKLOAD = "llm-4096x4096"
ROWS, HIDDEN, EPS = 4096, 4096, 1e-6

# What a person writes round the kernel for `load_inline`: the choice that [launch] of op.toml makes, in C++.
BINDING = """
void rms_norm(torch::Tensor out, torch::Tensor input, torch::Tensor weight, double eps) {{
    const int rows = input.size(0), hidden = input.size(1);
    constexpr int kElements = {bytes} / (int)sizeof(__nv_bfloat16) > 0 ? {bytes} / (int)sizeof(__nv_bfloat16) : 1;
    constexpr int kUnits = ({hidden} + {block} * kElements - 1) / ({block} * kElements);
    auto* o = reinterpret_cast<__nv_bfloat16*>(out.data_ptr());
    const auto* x = reinterpret_cast<const __nv_bfloat16*>(input.data_ptr());
    const auto* w = reinterpret_cast<const __nv_bfloat16*>(weight.data_ptr());
    const auto stream = at::cuda::getCurrentCUDAStream();
    if constexpr (!{reread} && kUnits * {bytes} <= 256) {{
        rms::held<__nv_bfloat16, {block}, kElements, kUnits><<<rows, {block}, 0, stream>>>(o, x, w, hidden, (float)eps);
    }} else {{
        rms::read_twice<__nv_bfloat16, {block}><<<rows, {block}, 0, stream>>>(o, x, w, hidden, (float)eps);
    }}
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}}
"""


def settings(op_toml):
    """Every setting of [tune], the last tunable changing fastest, as `screen` takes them."""
    import tomllib

    tune = tomllib.loads(op_toml)["tune"]
    found = [{}]
    for name, tunable in tune.items():
        if name != "constraints":
            found = [one | {name: value} for one in found for value in tunable["values"]]
    return found


def usual(job):
    """One candidate in the usual way: build, compare with eager PyTorch, time by events. Returns seconds of each."""
    number, tuning, folder = job
    os.environ["TORCH_CUDA_ARCH_LIST"] = "9.0a"
    os.environ["TORCH_EXTENSIONS_DIR"] = folder
    os.environ["MAX_JOBS"] = "1"
    import fcntl

    import torch
    from torch.utils.cpp_extension import load_inline

    text = (PROJECT / "rms_norm.cu").read_text()
    # After the includes: torch's headers use such names themselves.
    macros = f"#define UNROLL {tuning['unroll']}\n#define STREAM {int(tuning['stream'])}\n"
    includes = "#include <torch/extension.h>\n#include <ATen/cuda/CUDAContext.h>\n#include <c10/cuda/CUDAException.h>\n"
    binding = BINDING.format(
        block=tuning["block"], bytes=tuning["bytes"], hidden=HIDDEN, reread=str(tuning["reread"]).lower()
    )
    started = time.perf_counter()
    module = load_inline(
        name=f"candidate_{number}",
        cpp_sources="void rms_norm(torch::Tensor out, torch::Tensor input, torch::Tensor weight, double eps);",
        cuda_sources=includes + macros + text + binding,
        functions=["rms_norm"],
    )
    built = time.perf_counter() - started
    with open(os.path.join(folder, "gpu.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one candidate at a time is timed
        x = torch.randn(ROWS, HIDDEN, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(HIDDEN, device="cuda", dtype=torch.bfloat16)
        out = torch.empty_like(x)
        started = time.perf_counter()
        module.rms_norm(out, x, w, EPS)
        expected = torch.nn.functional.rms_norm(x.float(), (HIDDEN,), w.float(), EPS).to(torch.bfloat16)
        right = torch.allclose(out.float(), expected.float(), atol=1e-2, rtol=1e-2)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for _ in range(10):
            module.rms_norm(out, x, w, EPS)
        begin.record()
        for _ in range(100):
            module.rms_norm(out, x, w, EPS)
        end.record()
        torch.cuda.synchronize()
        judged = time.perf_counter() - started
    return {"tuning": tuning, "right": right, "build_seconds": built, "judge_seconds": judged,
            "seconds": begin.elapsed_time(end) / 100 / 1e3}


def run_usual(chosen, builds):
    """The usual way on some candidates, so many builds at a time; the pool's start is not counted."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(builds) as pool:
        list(pool.map(warm, range(builds)))
        jobs = [(number, tuning, folder) for number, tuning in enumerate(chosen)]
        started = time.perf_counter()
        rows = list(pool.map(usual, jobs))
        seconds = time.perf_counter() - started
    return {"candidates": len(rows), "seconds": seconds, "per_minute": 60 * len(rows) / seconds, "builds": builds,
            "right": sum(row["right"] for row in rows), "rows": rows}


def warm(_):
    """Imports torch and opens the GPU, which every process of the pool does once."""
    import torch

    torch.zeros(1, device="cuda")


def run_screen(program, chosen, cache):
    """`kernelwright screen` on all candidates with an empty cache; its own start (torch, the reference) is counted."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for tuning in chosen:
            file.write(json.dumps({"tuning": tuning}) + "\n")
        file.flush()
        command = [program, "screen", str(PROJECT), "--workload", WORKLOAD, "--candidates", file.name,
                   "--message-format", "json"]
        started = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, env=os.environ | {"KERNELWRIGHT_CACHE": cache}, check=True)
        seconds = time.perf_counter() - started
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    results = [row for row in rows if row.get("event") == "result"]
    summary = next((row for row in rows if row.get("action") == "screened"), {})
    return {"candidates": len(results), "seconds": seconds, "per_minute": 60 * len(results) / seconds,
            "right": sum(row["verdict"] == "passed" for row in results), "said": summary.get("detail"), "rows": results}


def machine():
    query = "name,driver_version,clocks.sm,clocks.max.sm,temperature.gpu,power.draw,clocks_throttle_reasons.active"
    said = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True)
    import torch

    return {"gpu": said.stdout.strip(), "gpu_fields": query, "processors": os.cpu_count(), "torch": torch.__version__,
            "python": platform.python_version(), "date": time.strftime("%Y-%m-%d", time.gmtime())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="kernelwright", help="the program to measure, a release build")
    parser.add_argument("--candidates", type=int, default=768, help="how many `screen` gets (default: all)")
    parser.add_argument("--usual", type=int, default=32, help="how many of them the usual way gets; 0 leaves it out")
    parser.add_argument("--builds", type=int, default=16, help="builds at a time in the usual way")
    parser.add_argument("--commit", help="the program's commit, for the record")
    parser.add_argument("--out", default="-", help="where the record goes")
    arguments = parser.parse_args()
    chosen = settings((PROJECT / "op.toml").read_text())
    # Evenly spread, so that few candidates are like many.
    spread = lambda count: [chosen[place * len(chosen) // count] for place in range(count)]
    chosen = spread(min(arguments.candidates, len(chosen)))
    with tempfile.TemporaryDirectory() as cache:
        screened = run_screen(arguments.program, chosen, cache)
    print(f"screen: {screened['per_minute']:.0f} candidates a minute; {screened['said']}", file=sys.stderr)
    record = {"benchmark": "throughput", "commit": arguments.commit, "machine": machine(), "workload": WORKLOAD,
              "screen": screened}
    if arguments.usual:
        record["usual"] = run_usual(spread(min(arguments.usual, len(chosen))), arguments.builds)
        record["times"] = screened["per_minute"] / record["usual"]["per_minute"]
        print(f"load_inline: {record['usual']['per_minute']:.1f} a minute; {record['times']:.0f} times", file=sys.stderr)
    text = json.dumps(record, indent=1) + "\n"
    if arguments.out == "-":
        sys.stdout.write(text)
    else:
        pathlib.Path(arguments.out).write_text(text)


if __name__ == "__main__":
    main()
