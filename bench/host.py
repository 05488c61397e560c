#!/usr/bin/env python3
"""How long the processor takes for a call of a built package, beside PyTorch's own operators.

    python3 bench/host.py FOLDER... [--out FILE] [--cpu]

FOLDER is an importable package as `kernelwright build` leaves it: build/VARIANT, or .kernelwright/artifacts/VARIANT of an
example. Tensors have 4 rows of 64, so that a GPU is done before the processor has made the next call, and nothing waits for it.
Needs torch, and a GPU unless --cpu is given, which measures packages for the processor with the work that they do.

The ways to call are: `plain` (no argument needs a gradient), `out=`, `no_grad`, `inference`, `gradient` (an argument needs one;
the forward alone), `backward` (with its backward), `compiled` (by torch.compile, fullgraph) and `module` (an nn.RMSNorm that the
package's `inject` has replaced, beside one that it has not and a module that calls the package). All take turns in rounds. A
line on stdout for each package and way: microseconds a call (median of the rounds), the same of each peer (`add` is torch.add
of the same tensors), and ours divided by the peer's with the middle 95% of that ratio over the rounds; below 1 is a win.
`import` and `first call` are seconds in a new process, less the import of torch and the start of CUDA.
"""

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import machine  # noqa: E402

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("host.py needs PyTorch: run it with a Python that imports torch")

ROWS, LENGTH, ROUNDS, CALLS = 4, 64, 31, 200
COLD = """
import json, sys, time, torch
sys.path.insert(0, sys.argv[1])
import host
device, folder = sys.argv[2], sys.argv[3]
one = host.inputs(folder, device)
begun = time.perf_counter()
package = host.load(folder)
loaded = time.perf_counter()
host.synchronize(device)
called = time.perf_counter()
host.OURS[host.named(folder)](package, *one)
host.synchronize(device)
print(json.dumps({"import": loaded - begun, "first call": time.perf_counter() - called}))
"""

#: How each package is called, and PyTorch's operators that compute the same.
OURS = {
    "rms_norm": lambda package, x, w: package.rms_norm(x, w),
    "add_rms_norm": lambda package, x, w: package.add_rms_norm(x, x, w)[0],
    "softmax": lambda package, x: package.softmax(x),
    "swiglu": lambda package, x: package.swiglu(x),
    "cross_entropy": lambda package, x, target: package.cross_entropy(x, target)[0],
}
PEERS = {
    "rms_norm": {"F.rms_norm": lambda x, w: F.rms_norm(x, (LENGTH,), w, 1e-6)},
    "add_rms_norm": {"add, F.rms_norm": lambda x, w: F.rms_norm(x + x, (LENGTH,), w, 1e-6)},
    "softmax": {"F.softmax": lambda x: F.softmax(x, dim=-1)},
    "swiglu": {"F.silu, mul": lambda x: F.silu(x[:, : LENGTH // 2]) * x[:, LENGTH // 2 :]},
    "cross_entropy": {"F.cross_entropy": lambda x, target: F.cross_entropy(x, target, reduction="none")},
}


def named(folder):
    """The name of the package in a folder: its own, or that of the folder with the operation inside."""
    if not (Path(folder) / "__init__.py").exists():
        sys.exit(f"no package in {folder}: name a folder with __init__.py, such as build/VARIANT")
    text = (Path(folder) / "__init__.py").read_text(encoding="utf-8")
    found = [name for name in OURS if f"def {name}(" in text]
    if not found:
        sys.exit(f"{folder}: none of the packages that this program knows: {', '.join(OURS)}")
    return found[0]


def load(folder):
    """The package, imported as the kernels client does: by its file."""
    name = f"host_{named(folder)}"
    spec = importlib.util.spec_from_file_location(name, Path(folder) / "__init__.py", submodule_search_locations=[str(folder)])
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return package


def inputs(folder, device):
    """The tensors of a call; the first is the one that needs a gradient where one does."""
    x, name = torch.randn(ROWS, LENGTH, device=device), named(folder)
    if name in ("rms_norm", "add_rms_norm"):
        return [x, torch.randn(LENGTH, device=device)]
    return [x, torch.randint(LENGTH, (ROWS,), device=device)] if name == "cross_entropy" else [x]


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def backward(call):
    """A call with its backward, for the gradient of the first argument."""

    def run(x, *others):
        result = call(x, *others)
        result.backward(torch.ones_like(result))
        x.grad = None

    return run


class Calling(torch.nn.Module):
    """A norm whose author wrote a call of the package."""

    def __init__(self, package, length):
        super().__init__()
        self.package, self.weight, self.eps = package, torch.nn.Parameter(torch.ones(length)), 1e-6

    def forward(self, x):
        return self.package.rms_norm(x, self.weight, self.eps)


def modules(package, x):
    """Modules that compute the norm, the replaced one first."""
    plain = torch.nn.RMSNorm(LENGTH, eps=1e-6, device=x.device)
    replaced = torch.nn.RMSNorm(LENGTH, eps=1e-6, device=x.device)
    if not package.inject(replaced).replaced:
        sys.exit("inject did not replace nn.RMSNorm")
    return {"ours": replaced, "module that calls it": Calling(package, LENGTH).to(x.device), "nn.RMSNorm": plain}


def ways(package, name, tensors):
    """For each way to call: the contenders with their arguments, ours first, and the context of the calls."""
    ours, peers = lambda *given: OURS[name](package, *given), PEERS[name]
    wanting = [tensors[0].clone().requires_grad_(), *tensors[1:]]
    try:
        ours(*wanting)
        has_gradient = True
    except RuntimeError as error:
        if "has no gradient" not in str(error):
            raise
        has_gradient = False
    eager = {"ours": ours, **peers, "add": lambda x, *_: torch.add(x, x)}
    found = {"plain": (eager, tensors, torch.enable_grad)}
    if name in ("rms_norm", "softmax"):
        out = torch.empty_like(tensors[0])
        given = {"ours": lambda *one: getattr(package, name)(*one, out=out), **peers}
        found["out="] = (given, tensors, torch.enable_grad)
    found["no_grad"] = (eager, wanting, torch.no_grad)
    found["inference"] = (eager, tensors, torch.inference_mode)
    if has_gradient:
        found["gradient"] = ({"ours": ours, **peers}, wanting, torch.enable_grad)
        found["backward"] = ({key: backward(call) for key, call in found["gradient"][0].items()}, wanting, torch.enable_grad)
    if name == "rms_norm":
        found["module"] = (modules(package, tensors[0]), tensors[:1], torch.no_grad)
    compiled = {key: torch.compile(call, fullgraph=True) for key, call in {"ours": ours, **peers}.items()}
    found["compiled"] = (compiled, tensors, torch.no_grad)
    return found


def rounds(contenders, tensors, context, device):
    """Microseconds a call of each contender, a value for each round."""
    found = {name: [] for name in contenders}
    with context():
        for _ in range(2):
            for call in contenders.values():
                for _ in range(CALLS):
                    call(*tensors)
        for _ in range(ROUNDS):
            for name, call in contenders.items():
                synchronize(device)
                begun = time.perf_counter()
                for _ in range(CALLS):
                    call(*tensors)
                found[name].append((time.perf_counter() - begun) / CALLS * 1e6)
                synchronize(device)
    return found


def measured(folder, device):
    """The lines of a package."""
    name, tensors = named(folder), inputs(folder, device)
    package = load(folder)
    for way, (contenders, arguments, context) in ways(package, name, tensors).items():
        found = rounds(contenders, arguments, context, device)
        line = {"package": name, "way": way, "us": {key: round(statistics.median(value), 2) for key, value in found.items()}}
        for key, value in found.items():
            if key != "ours":
                ratios = sorted(ours / peer for ours, peer in zip(found["ours"], value, strict=True))
                inner = ratios[max(0, len(ratios) // 40) : len(ratios) - len(ratios) // 40]
                ratio = {"ratio": round(statistics.median(ratios), 3), "low": round(inner[0], 3), "high": round(inner[-1], 3)}
                line.setdefault("over", {})[key] = ratio
        yield line
    words = [sys.executable, "-c", COLD, str(Path(__file__).parent), device, str(folder)]
    starts = [json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout) for _ in range(3)]
    yield {"package": name, "way": "start", "seconds": {key: min(one[key] for one in starts) for key in starts[0]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="built packages")
    parser.add_argument("--cpu", action="store_true", help="packages for the processor")
    parser.add_argument("--out", type=Path, help="also write the lines to this file")
    options = parser.parse_args()
    if not options.cpu and not torch.cuda.is_available():
        parser.error("there is no GPU; --cpu measures packages for the processor")
    torch.set_num_threads(1)
    device = "cpu" if options.cpu else "cuda"
    name = "cpu" if options.cpu else torch.cuda.get_device_name()
    about = {**machine.described(), "device": name, "torch": torch.__version__}
    lines = []
    for folder in options.folders:
        for line in measured(folder.resolve(), device):
            lines.append(json.dumps({**line, **about}))
            print(lines[-1], flush=True)
    if options.out:
        unfinished = options.out.with_suffix(".part")
        unfinished.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        unfinished.replace(options.out)


if __name__ == "__main__":
    main()
