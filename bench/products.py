#!/usr/bin/env python3
"""A package of the template `gemm` beside cuBLAS and cuBLASLt, as PyTorch calls them.

    python3 bench/products.py PROJECT --out bench/results/DATE-GPU-products.jsonl --seconds 100

PROJECT is built for CUDA (`kernelwright build PROJECT`, or what `packages.py judge --keep` leaves). Shapes are 38 of a published
search (powers of two and their multiples, 64 to 16384), three products of few rows, and others that --seed draws: any number of
rows, lengths of current models, often 8 or 24 more or less; two have rows that no vector divides. Each contender has a CUDA
graph of calls with tensors by turns, more than the L2 cache holds; graphs are replayed by turns, and the median of nine counts.
Matrices are random normal.

Contenders are `ours`, `cublas` and `cublaslt` as PyTorch calls them, and `tuned`: the fastest of all algorithms that cuBLASLt
proposes for the shape, found by timing each in the same way before.

The output has a line for each shape: `kind` (`table`, `drawn` or `odd`), `dtype`, `m`, `n`, `k`, `us` of each contender, `ratio` of
the fastest library over ours, `algorithms` that were proposed, `error` of 256 rows relative to float32, and the device. A last line
of kind `host` has the microseconds of a call on the processor, beside `torch.nn.functional.linear`. Prints geometric means. Needs
a GPU, no network.
"""

import argparse
import datetime
import importlib.util
import json
import math
import pathlib
import random
import statistics
import sys
import time

from cublaslt import CublasLt

#: Products of a (m by k) and the transpose of b (n by k): m, n, k.
# fmt: off
TABLE = [
    (64, 64, 4096), (256, 8192, 1024), (512, 4096, 4096), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096),
    (8192, 8192, 8192), (64, 8192, 8192), (4096, 64, 4096), (8192, 8192, 64), (16384, 128, 2048), (64, 4096, 64),
    (128, 4096, 8192), (16384, 8192, 2048), (512, 512, 4096), (8192, 12288, 12288), (2048, 16384, 1024),
    (1024, 2048, 12288), (128, 4096, 256), (8192, 64, 64), (256, 128, 16384), (2048, 8192, 512), (2048, 12288, 2048),
    (8192, 2048, 1024), (64, 1024, 128), (64, 2048, 8192), (16384, 12288, 1024), (8192, 8192, 12288), (2048, 64, 64),
    (16384, 4096, 4096), (256, 8192, 512), (8192, 12288, 16384), (128, 128, 16384), (256, 12288, 4096),
    (12288, 2048, 128), (128, 4096, 4096), (64, 4096, 2048), (8192, 128, 8192), (1, 4096, 14336), (4, 14336, 4096),
    (16, 4096, 14336)
]
# fmt: on
#: No vector divides their rows.
ODD = [(333, 4097, 1024), (1000, 1000, 1001)]
COLUMNS = [768, 1024, 1536, 2048, 2560, 3072, 4096, 5120, 8192, 11008, 14336]
DEPTHS = [64, 128, 512, 768, 1024, 2048, 3072, 4096, 5120, 8192, 14336]
#: Bytes of all tensors of a contender, at least: more than any L2 cache.
ROTATED = 150 << 20
ROUNDS = 9


def shapes(seed, count):
    """Kind and (m, n, k) of each product."""
    for shape in TABLE:
        yield "table", shape
    draw = random.Random(seed)

    def near(lengths):
        length = draw.choice(lengths)
        return draw.choice([length, length, length + 8, length - 8, length + 24])

    for _ in range(count):
        yield "drawn", (int(2 ** draw.uniform(0, 14)), near(COLUMNS), near(DEPTHS))
    for shape in ODD:
        yield "odd", shape


def package_of(project, name="gemm"):
    """The built package of a project for this PyTorch."""
    found = sorted(pathlib.Path(project, ".kernelwright", "artifacts").glob("torch-*-cu*"))
    if not found:
        sys.exit(f"{project} has no build for CUDA: run `kernelwright build {project}` first")
    spec = importlib.util.spec_from_file_location(name, found[0] / "__init__.py", submodule_search_locations=[str(found[0])])
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return package


def captured(torch, call, sets, calls):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for tensors in sets[:2]:
            call(*tensors)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for turn in range(calls):
            call(*sets[turn % len(sets)])
    return graph


def microseconds(torch, graph, calls):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / calls


def fastest(torch, proposed, sets, calls):
    """The call of the fastest algorithm that cuBLASLt proposes: its time is the median of three."""

    def call_of(algorithm):
        return lambda a, b, out: proposed(algorithm, a, b, out)

    def time_of(call):
        graph = captured(torch, call, sets, calls)
        return statistics.median(microseconds(torch, graph, calls) for _ in range(4))

    return min(map(call_of, proposed.algorithms), key=time_of)


def measured(torch, ours, library_tuned, dtype, shape):
    """Times of all contenders, the number of algorithms that cuBLASLt proposes, and the error of ours."""
    m, n, k = shape

    def library(name):
        def call(a, b, _):
            torch.backends.cuda.preferred_blas_library(name)
            return torch.nn.functional.linear(a, b)

        return call

    def random_matrix(rows, columns):
        return torch.randn(rows, columns, dtype=dtype, device="cuda")

    one = 2 * (m * k + n * k + m * n)
    number = max(2, min(16, -(-ROTATED // one)))
    sets = [(random_matrix(m, k), random_matrix(n, k), torch.empty(m, n, dtype=dtype, device="cuda")) for _ in range(number)]
    a, b, _ = sets[0]
    want = torch.matmul(a[:256].float(), b.float().t())
    error = ((ours(a, b)[:256].float() - want).norm() / want.norm()).item()
    estimate = max(2 * m * n * k / 7e8, one / 4e6) + 3
    calls = int(max(2, min(100, 2500 / estimate)))
    if calls > len(sets):
        calls = -(-calls // len(sets)) * len(sets)
    proposed = library_tuned.product(dtype, m, n, k)
    contenders = {"ours": lambda a, b, _: ours(a, b), "cublas": library("cublas"), "cublaslt": library("cublaslt")}
    if proposed.algorithms:
        contenders["tuned"] = fastest(torch, proposed, sets, calls)
    graphs = {name: captured(torch, call, sets, calls) for name, call in contenders.items()}
    for graph in graphs.values():
        graph.replay()
    times = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(microseconds(torch, graph, calls))
    algorithms = len(proposed.algorithms)
    proposed.close()
    return {name: round(statistics.median(of), 2) for name, of in times.items()}, algorithms, error


def host_microseconds(torch, ours):
    """Of a call of each contender, without waiting for the GPU."""
    a = torch.randn(16, 64, dtype=torch.bfloat16, device="cuda")
    b = torch.randn(64, 64, dtype=torch.bfloat16, device="cuda")
    times = {"ours": [], "linear": []}
    for _ in range(7):
        for name, call in (("ours", ours), ("linear", torch.nn.functional.linear)):
            for _ in range(200):
                call(a, b)
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(400):
                call(a, b)
            times[name].append((time.perf_counter() - begun) / 400 * 1e6)
            torch.cuda.synchronize()
    return {name: round(statistics.median(of), 2) for name, of in times.items()}


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a file of JSON lines, written anew")
    parser.add_argument("--dtype", choices=["bfloat16", "float16"], default="bfloat16")
    parser.add_argument("--seed", type=int, default=77, help="of the drawn shapes")
    parser.add_argument("--count", type=int, default=30, help="drawn shapes")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no shape begins after these")
    options = parser.parse_args()
    begun = time.monotonic()
    try:
        import torch
    except ImportError:
        sys.exit("products.py needs PyTorch: run it with a Python that imports torch")
    if not options.out.parent.is_dir():
        sys.exit(f"--out: there is no folder {options.out.parent}")
    if not torch.cuda.is_available():
        sys.exit("products.py needs an NVIDIA GPU")
    package = package_of(options.project)
    library_tuned = CublasLt(torch)
    dtype = getattr(torch, options.dtype)
    about = {
        "dtype": options.dtype,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cublaslt": library_tuned.version,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    rows = []
    unfinished = options.out.with_suffix(".part")
    with torch.no_grad(), unfinished.open("w", encoding="utf-8") as file:
        for kind, shape in shapes(options.seed, options.count):
            if time.monotonic() - begun > options.seconds:
                print("out of time; the rest is not measured", file=sys.stderr)
                break
            us, algorithms, error = measured(torch, package.gemm, library_tuned, dtype, shape)
            m, n, k = shape
            ratio = round(min(time for name, time in us.items() if name != "ours") / us["ours"], 3)
            found = {"us": us, "ratio": ratio, "algorithms": algorithms, "error": error}
            rows.append({"kind": kind, "m": m, "n": n, "k": k, **found, **about})
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
            print(f"{kind} {m} x {n} x {k}: {us['ours']} us, {ratio:.2f}x", file=sys.stderr)
        host = {"kind": "host", "m": 16, "n": 64, "k": 64, "us": host_microseconds(torch, package.gemm), **about}
        file.write(json.dumps(host) + "\n")
    unfinished.replace(options.out)
    for kind in ("table", "drawn", "odd"):
        ratios = [row["ratio"] for row in rows if row["kind"] == kind]
        if ratios:
            print(f"{kind}: {len(ratios)} shapes, {geomean(ratios):.3f}x, from {min(ratios):.2f}x to {max(ratios):.2f}x")
    print(f"host: {host['us']['ours']} us a call, linear {host['us']['linear']} us")


if __name__ == "__main__":
    main()
