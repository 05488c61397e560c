#!/usr/bin/env python3
"""Times the convolutions of KernelBench's level 2 alone, as they are and in channels-last layout.

    git clone https://github.com/ScalingIntelligence/KernelBench
    python3 bench/convolutions.py KernelBench/KernelBench/level2 --out FILE.jsonl

This is what decision 0038 rests on. The batch of each task is halved until its largest tensor has at most 128 MiB in float32, or
--largest MiB. Biases are left out. Products and convolutions compute as PyTorch does by default, which allows TF32 in convolutions.

FILE.jsonl has a line for each task with one convolution: `task`, `x` and `weight` (shapes), `stride`, `groups`, `transposed`, and
microseconds for `float32` and `bfloat16`: `contiguous` (the convolution as it is), `channels_last` (its input has that layout),
`weight_too` (its weight as well), `to_channels_last` and `from_channels_last` (PyTorch's copies of the input and of the result).
Each is the middle of three means of eight calls. Needs a GPU.
"""

import argparse
import json
import pathlib
import sys

import torch

LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


def microseconds(call):
    """The middle of three means of eight calls."""
    for _ in range(3):
        call()
    means = []
    for _ in range(3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(8):
            call()
        end.record()
        end.synchronize()
        means.append(begin.elapsed_time(end) / 8 * 1e3)
    return round(sorted(means)[1], 1)


def task(path, limit):
    """The convolution of a task, without elements, and the shape of its input; `None` if it has several.

    The input has the task's batch, halved until no tensor has more than `limit` bytes.
    """
    space = {"__name__": "task"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
    with torch.device("meta"):
        x, model = space["get_inputs"]()[0], space["Model"](*space["get_init_inputs"]())
    found = [one for one in model.modules() if isinstance(one, torch.nn.modules.conv._ConvNd)]
    if len(found) != 1 or x.dim() not in LAYOUTS:
        return None
    largest, batch = max(x.numel(), found[0](x).numel()) * 4, x.shape[0]
    while batch > 1 and largest * batch / x.shape[0] > limit:
        batch //= 2
    return found[0], [batch, *x.shape[1:]]


def measured(convolution, x):
    """The times of a convolution in one dtype."""
    layout = LAYOUTS[x.dim()]
    last = x.contiguous(memory_format=layout)
    result = convolution(last)
    times = {
        "contiguous": microseconds(lambda: convolution(x)),
        "channels_last": microseconds(lambda: convolution(last)),
        "to_channels_last": microseconds(lambda: x.contiguous(memory_format=layout)),
        "from_channels_last": microseconds(lambda: result.contiguous()),
    }
    convolution.weight = torch.nn.Parameter(convolution.weight.contiguous(memory_format=layout))
    return times | {"weight_too": microseconds(lambda: convolution(last))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=pathlib.Path, help="a folder with tasks of KernelBench")
    parser.add_argument("--largest", type=int, default=128, metavar="MIB", help="the most that a tensor takes; default: 128")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="only tasks with one of these words in their name")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the file that is written")
    options = parser.parse_args()
    paths = [path for path in sorted(options.tasks.glob("*.py")) if "Conv" in path.stem]
    if paths and options.only:
        paths = [path for path in paths if any(word.lower() in path.stem.lower() for word in options.only)]
        if not paths:
            parser.error(f"no convolution has one of these words in its name: {' '.join(options.only)}")
    if not paths:
        parser.error(f"no convolutions in `{options.tasks}`: name a folder of KernelBench, as KernelBench/KernelBench/level2")
    if options.largest < 1:
        parser.error("--largest is at least 1")
    if not torch.cuda.is_available():
        parser.error("convolutions are timed on a GPU, and PyTorch finds none here")
    lines = []
    for path in paths:
        found = task(path, options.largest << 20)
        if found is None:
            print(f"{path.stem}: left out, for it has not one convolution over two or three axes", file=sys.stderr)
            continue
        convolution, shape = found
        row = {"task": path.stem, "x": shape, "weight": list(convolution.weight.shape), "stride": list(convolution.stride)}
        row |= {"groups": convolution.groups, "transposed": convolution.transposed}
        for dtype in (torch.float32, torch.bfloat16):
            own = task(path, options.largest << 20)[0].to_empty(device="cuda").to(dtype)
            own.bias = None
            with torch.no_grad():
                own.weight.normal_(std=0.02)
                row[str(dtype).removeprefix("torch.")] = measured(own, torch.randn(shape, device="cuda", dtype=dtype))
        lines.append(json.dumps(row) + "\n")
        print(path.stem, row["float32"], file=sys.stderr)
    options.out.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
