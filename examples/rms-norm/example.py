"""Load the built kernel with the `kernels` library, run it, and compare the result with float64.

Usage: python example.py [PATH]     PATH holds the built variants; default: dist, else build, beside this file.
"""

import sys
from pathlib import Path

import torch
from kernels import get_local_kernel

sys.path.insert(0, str(Path(__file__).resolve().parent))

from reference import rms_norm


def default_path() -> Path:
    project = Path(__file__).resolve().parent
    published = project / "dist"
    return published if published.is_dir() else project / "build"


def device_for(path: Path) -> str | None:
    """The best device of this machine that the folder has a variant for."""
    variants = [metadata.parent.name for metadata in path.glob("**/metadata.json")]
    if torch.cuda.is_available() and any("-cu" in variant for variant in variants):
        return "cuda"
    return "cpu" if any("-cpu" in variant for variant in variants) else None


def values(shape: tuple, dtype: torch.dtype, device: str) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype).to(device)
    return torch.randint(0, 2, shape).to(dtype).to(device)


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default_path()
    device = device_for(path)
    if device is None:
        print(f"skipped: {path} has no variant that this machine can run")
        return 0
    # Named, because a PyTorch built for CUDA asks for the CUDA variant even on a machine without a GPU.
    kernel = get_local_kernel(path, backend=device)

    torch.manual_seed(0)
    input = values((1024, 4096), torch.bfloat16, device)
    weight = values((4096,), torch.bfloat16, device)
    arguments = [input, weight]
    exact = rms_norm(*[a.double() if a.is_floating_point() else a.clone() for a in arguments])
    exact = exact if isinstance(exact, tuple) else (exact,)
    results = kernel.rms_norm(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    exact = [exact[place] for place in [0]]

    wrong = 0
    for name, result, expected in zip(['out'], results, exact):
        if not result.dtype.is_floating_point:
            good = torch.equal(result.to(torch.int64), expected.to(torch.int64))
            print(f"rms-norm on {device}: {name} {'is exact' if good else 'differs'}")
        else:
            # Half a unit in the last place, and a little for the float32 arithmetic before it.
            rounding = expected.abs() * torch.finfo(result.dtype).eps / 2 + expected.abs().mean() * 2e-6 + 1e-7
            worst = ((result.double() - expected).abs() / rounding).max().item()
            good = worst <= 1.01
            print(f"rms-norm on {device}: largest error of {name} {worst:.2f} of the rounding to {result.dtype}")
        wrong += not good
    print("WRONG" if wrong else "OK")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
