#!/usr/bin/env python3
"""A package of the template `attention` beside PyTorch's scaled_dot_product_attention: its cuDNN and its flash kernel.

    python3 bench/attention.py PROJECT --out bench/results/DATE-GPU-attention.jsonl --seconds 60

PROJECT is built for CUDA (`kernelwright build PROJECT`, or what `packages.py judge --keep` leaves). The shapes are batch, heads of q,
heads of k and v, rows of q, rows of k and elements of a head; SHAPES has them. With `bias` a tensor is added to the scores
of all heads. Each contender has a CUDA graph of calls on the same random normal tensors in bf16; graphs are replayed by turns,
and the median counts. A kernel that refuses a call is left out.

The output has a line for each shape: the lengths, `mask`, `us` of each contender, `tflops` of ours (a causal product counts half),
`ratio` of the fastest rival over ours, `error` of the first rows of a head relative to float64, and the device. A last line of kind
`host` has the microseconds of a call on the processor. Needs a GPU, no network.
"""

import argparse
import datetime
import functools
import json
import math
import pathlib
import statistics
import sys
import time

from products import captured, geomean, microseconds, package_of

#: Batch, heads, heads of k and v, rows of q, rows of k, elements of a head; the mask.
SHAPES = [
    ((1, 32, 8, 16384, 16384, 128), "none"),
    ((1, 32, 8, 16384, 16384, 128), "causal"),
    ((1, 32, 8, 16384, 16384, 128), "bias"),
    ((4, 48, 48, 8192, 8192, 128), "none"),
    ((4, 48, 48, 8192, 8192, 128), "causal"),
    ((4, 32, 8, 4096, 4096, 128), "causal"),
    ((8, 32, 8, 1024, 1024, 128), "causal"),
    ((2, 16, 16, 1024, 4096, 128), "none"),
    ((16, 32, 32, 512, 512, 128), "none"),
    ((1, 32, 8, 512, 512, 128), "causal"),
    ((1, 32, 8, 333, 333, 128), "causal"),
    ((4, 32, 32, 8192, 8192, 64), "none"),
    ((4, 32, 32, 8192, 8192, 64), "causal"),
    ((8, 32, 8, 1024, 1024, 64), "causal"),
    ((2, 24, 24, 4096, 4096, 96), "none"),
    ((1, 32, 8, 1, 4096, 128), "none"),
]
ROUNDS = 5


def rival(torch, backend, q, k, v, bias, causal):
    """A call of PyTorch's attention by one of its kernels."""
    from torch.nn.attention import sdpa_kernel

    grouped = q.shape[1] != k.shape[1]

    def call():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal, enable_gqa=grouped)

    return call


def error_of(torch, out, q, k, v, bias, causal):
    """The largest error of the first rows of the last head, over the root mean square of their values in float64."""
    rows, keys = min(64, q.shape[2]), k.shape[2]
    scores = q[-1, -1, :rows].double() @ k[-1, -1].double().T / math.sqrt(q.shape[3])
    if bias is not None:
        scores = scores + bias[:rows].double()
    if causal:
        first = torch.arange(rows, device="cuda")[:, None] + keys - q.shape[2]
        scores = scores.masked_fill(torch.arange(keys, device="cuda") > first, -math.inf)
    want = torch.softmax(scores, -1) @ v[-1, -1].double()
    return ((out[-1, -1, :rows].double() - want).abs().max() / want.square().mean().sqrt()).item()


def measured(torch, ours, shape, mask):
    """Microseconds of each contender, the products of ours in TFLOP/s, and its error."""
    from torch.nn.attention import SDPBackend

    batch, heads, kv_heads, rows, keys, dim = shape
    q, k, v = (
        torch.randn(batch, count, length, dim, dtype=torch.bfloat16, device="cuda")
        for count, length in ((heads, rows), (kv_heads, keys), (kv_heads, keys))
    )
    bias = torch.randn(rows, keys, dtype=torch.bfloat16, device="cuda") if mask == "bias" else None
    causal = mask == "causal"
    added = None if bias is None else bias[None, None]
    contenders = {"ours": functools.partial(ours, q, k, v, bias, causal=causal)}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        contenders[name] = rival(torch, backend, q, k, v, added, causal)
    operations = 4 * batch * heads * rows * keys * dim / (2 if causal else 1)
    calls = int(max(1, min(50, 8000 / (operations / 4e8 + 5))))
    graphs = {}
    for name, call in contenders.items():
        try:
            graphs[name] = captured(torch, call, [()], calls)
        except RuntimeError as refused:
            if name == "ours":
                raise
            print(f"  {name}: {str(refused).splitlines()[0]}", file=sys.stderr)
    times = {name: [] for name in graphs}
    for number in range(ROUNDS + 1):
        for name, graph in graphs.items():
            took = microseconds(torch, graph, calls)
            if number > 0:
                times[name].append(took)
    us = {name: round(statistics.median(of), 2) for name, of in times.items()}
    out, _ = contenders["ours"]()
    return us, round(operations / us["ours"] / 1e6, 1), error_of(torch, out, q, k, v, bias, causal)


def host_microseconds(torch, ours):
    """Of a call of each contender, without waiting for the GPU."""
    q = torch.randn(1, 8, 16, 64, dtype=torch.bfloat16, device="cuda")
    calls = {"ours": lambda: ours(q, q, q), "sdpa": lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)}
    times = {name: [] for name in calls}
    for _ in range(7):
        for name, call in calls.items():
            for _ in range(100):
                call()
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(300):
                call()
            times[name].append((time.perf_counter() - begun) / 300 * 1e6)
            torch.cuda.synchronize()
    return {name: round(statistics.median(of), 2) for name, of in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a file of JSON lines, written anew")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no shape begins after these")
    options = parser.parse_args()
    begun = time.monotonic()
    try:
        import torch
    except ImportError:
        sys.exit("attention.py needs PyTorch: run it with a Python that imports torch")
    if not options.out.parent.is_dir():
        sys.exit(f"--out: there is no folder {options.out.parent}")
    if not torch.cuda.is_available():
        sys.exit("attention.py needs an NVIDIA GPU")
    package = package_of(options.project, "attention")
    about = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    ratios = []
    unfinished = options.out.with_suffix(".part")
    with torch.no_grad(), unfinished.open("w", encoding="utf-8") as file:
        for shape, mask in SHAPES:
            if time.monotonic() - begun > options.seconds:
                print("out of time; the rest is not measured", file=sys.stderr)
                break
            us, tflops, error = measured(torch, package.attention, shape, mask)
            names = ("batch", "heads", "kv_heads", "queries", "keys", "dim")
            row = {"kind": "shape", **dict(zip(names, shape, strict=True)), "mask": mask, "us": us, "tflops": tflops}
            best = min((time for name, time in us.items() if name != "ours"), default=None)
            row["ratio"] = None if best is None else round(best / us["ours"], 3)
            file.write(json.dumps({**row, "error": error, **about}) + "\n")
            file.flush()
            ratios += [row["ratio"]] if best is not None else []
            print(f"{shape} {mask}: {us['ours']} us, {tflops} TFLOP/s, {row['ratio']}x, error {error:.1e}", file=sys.stderr)
        host = {"kind": "host", "us": host_microseconds(torch, package.attention), **about}
        file.write(json.dumps(host) + "\n")
    unfinished.replace(options.out)
    if ratios:
        print(f"{len(ratios)} shapes, {geomean(ratios):.3f}x, from {min(ratios):.2f}x to {max(ratios):.2f}x")
    print(f"host: {host['us']['ours']} us a call, scaled_dot_product_attention {host['us']['sdpa']} us")


if __name__ == "__main__":
    main()
