#!/usr/bin/env python3
"""A package of the template `gemm-swiglu` or `gemm-fp8` beside what PyTorch has for the same.

    python3 bench/fused_products.py PROJECT --out bench/results/DATE-GPU-NAME.jsonl --seconds 40

PROJECT is built for CUDA (`kernelwright build PROJECT`, or what `packages.py judge --keep` leaves); its op.toml says which
operation it is. Beside `gemm_swiglu`: one product with the concatenated weights, and two products, by cuBLAS and by cuBLASLt, each
with a Triton kernel for SiLU and the product. Beside `gemm_fp8`: torch._scaled_mm with scales by rows, without and with
use_fast_accum, at shapes that it takes.

As in products.py, each contender has a CUDA graph of calls with tensors by turns, more than the L2 cache holds; graphs are replayed by
turns, and the median of nine counts. Matrices are random normal.

The output has a line for each shape: `operation`, `m`, `n`, `k`, `us` of each contender, `ratio` of the fastest other one over ours
(for `gemm_fp8`, of the fastest without use_fast_accum), `error` of the last 256 rows relative to float32, and the device. Prints the
geometric mean. Needs a GPU and Triton, no network.
"""

import argparse
import datetime
import json
import math
import pathlib
import statistics
import sys
import time
import tomllib

import products

#: m, n, k: those of Llama 3 8B and smaller models, from a prompt to a token, and some that fit no tile.
# fmt: off
SHAPES = {
    "gemm_swiglu": [
        (4096, 14336, 4096), (8192, 14336, 4096), (2048, 14336, 4096), (512, 14336, 4096), (128, 14336, 4096),
        (64, 14336, 4096), (16, 14336, 4096), (4, 14336, 4096), (1, 14336, 4096), (4096, 5632, 2048), (1024, 5632, 2048),
        (256, 5632, 2048), (32, 5632, 2048), (8, 5632, 2048), (8192, 8192, 1024), (4096, 3072, 768), (128, 2816, 1024),
        (256, 14336, 4096), (192, 8192, 3072), (333, 11008, 4096), (3000, 11008, 4096), (777, 8960, 1536), (100, 1536, 4096),
        (700, 2049, 1024), (100, 1000, 1001),
    ],
    "gemm_fp8": [
        (4096, 4096, 4096), (8192, 8192, 8192), (2048, 14336, 4096), (4096, 14336, 4096), (4096, 4096, 14336),
        (1024, 4096, 4096), (512, 4096, 4096), (256, 4096, 4096), (128, 4096, 4096), (128, 14336, 4096), (64, 4096, 4096),
        (32, 14336, 4096), (16, 14336, 4096), (4, 14336, 4096), (1, 4096, 14336), (2048, 2048, 2048), (8192, 4096, 1024),
        (700, 3072, 768), (333, 2048, 1024), (100, 1536, 4096), (64, 2048, 8192), (16, 2048, 1024),
    ],
}
# fmt: on


def swiglu(torch, ours):
    """A maker of tensors, the contenders and the exact result of given rows."""
    import triton
    from silu_mul import silu_mul

    linear = torch.nn.functional.linear

    def make(m, n, k):
        weights = torch.randn(2 * n, k, dtype=torch.bfloat16, device="cuda") * k**-0.5
        return torch.randn(m, k, dtype=torch.bfloat16, device="cuda"), weights

    def activated(gate, up):
        out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
        rows, length = out.shape
        silu_mul[(triton.cdiv(length, 2048), rows)](gate, up, out, length, gate.stride(0), 2048)
        return out

    def library(name, products_of):
        def call(a, weights):
            torch.backends.cuda.preferred_blas_library(name)
            return activated(*products_of(a, weights))

        return call

    def in_one(a, weights):
        return linear(a, weights).chunk(2, dim=1)

    def in_two(a, weights):
        gate, up = weights.chunk(2)
        return linear(a, gate), linear(a, up)

    def exact(a, weights):
        gate, up = (a.float() @ weights.float().t()).chunk(2, dim=1)
        return torch.nn.functional.silu(gate) * up

    others = {
        f"{how} {name}": library(name, products_of)
        for name in ("cublas", "cublaslt")
        for how, products_of in (("concatenated", in_one), ("two", in_two))
    }
    return make, {"ours": lambda a, weights: ours(a, *weights.chunk(2)), **others}, exact


def fp8(torch, ours):
    """The same for products of 8-bit floats."""

    def make(m, n, k):
        a, b = (torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn) for rows in (m, n))
        return a, b, torch.rand(m, device="cuda") + 0.5, torch.rand(n, device="cuda") + 0.5

    def scaled(fast):
        def call(a, b, scale_a, scale_b):
            return torch._scaled_mm(
                a, b.t(), scale_a.view(-1, 1), scale_b.view(1, -1), out_dtype=torch.bfloat16, use_fast_accum=fast
            )

        return call

    def exact(a, b, scale_a, scale_b):
        return (a.float() @ b.float().t()) * scale_a.view(-1, 1) * scale_b

    return make, {"ours": ours, "scaled_mm": scaled(fast=False), "scaled_mm fast": scaled(fast=True)}, exact


def measured(torch, shape, make, contenders, exact):
    """Times of all contenders, and the error of ours."""
    m, n, k = shape
    tensors = make(m, n, k)
    one = sum(tensor.numel() * tensor.element_size() for tensor in tensors) + 2 * m * n
    sets = [tensors, *(make(m, n, k) for _ in range(max(1, min(15, -(-products.ROTATED // one)))))]
    # Only rows of `a`, and of its scales, are left out.
    last = [tensor[-256:] if place % 2 == 0 else tensor for place, tensor in enumerate(tensors)]
    want = exact(*last)
    error = ((contenders["ours"](*tensors)[-256:].float() - want).norm() / want.norm()).item()
    estimate = max(2 * m * n * k / 7e8, one / 4e6) + 3
    calls = int(max(2, min(100, 2500 / estimate)))
    if calls > len(sets):
        calls = -(-calls // len(sets)) * len(sets)
    graphs = {name: products.captured(torch, call, sets, calls) for name, call in contenders.items()}
    for graph in graphs.values():
        graph.replay()
    times = {name: [] for name in graphs}
    for _ in range(products.ROUNDS):
        for name, graph in graphs.items():
            times[name].append(products.microseconds(torch, graph, calls))
    return {name: round(statistics.median(of), 2) for name, of in times.items()}, error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a file of JSON lines, written anew")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no shape begins after these")
    options = parser.parse_args()
    begun = time.monotonic()
    try:
        import torch
    except ImportError:
        sys.exit("fused_products.py needs PyTorch: run it with a Python that imports torch")
    if not options.out.parent.is_dir():
        sys.exit(f"--out: there is no folder {options.out.parent}")
    if not torch.cuda.is_available():
        sys.exit("fused_products.py needs an NVIDIA GPU")
    operation = tomllib.loads((options.project / "op.toml").read_text(encoding="utf-8"))["name"]
    if operation not in SHAPES:
        sys.exit(f"{options.project} is `{operation}`, not one of: {', '.join(SHAPES)}")
    ours = getattr(products.package_of(options.project, operation), operation)
    parts = {"gemm_swiglu": swiglu, "gemm_fp8": fp8}[operation](torch, ours)
    about = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    ratios = []
    unfinished = options.out.with_suffix(".part")
    with torch.no_grad(), unfinished.open("w", encoding="utf-8") as file:
        for shape in SHAPES[operation]:
            if time.monotonic() - begun > options.seconds:
                print("out of time; the rest is not measured", file=sys.stderr)
                break
            us, error = measured(torch, shape, *parts)
            m, n, k = shape
            ratio = round(min(took for name, took in us.items() if name != "ours" and "fast" not in name) / us["ours"], 3)
            row = {"operation": operation, "m": m, "n": n, "k": k, "us": us, "ratio": ratio, "error": error, **about}
            ratios.append(ratio)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(f"{m} x {n} x {k}: {us['ours']} us, {ratio:.2f}x", file=sys.stderr)
    unfinished.replace(options.out)
    if ratios:
        mean = products.geomean(ratios)
        print(f"{operation}: {len(ratios)} shapes, {mean:.3f}x, from {min(ratios):.2f}x to {max(ratios):.2f}x")


if __name__ == "__main__":
    main()
