"""Load the built kernel with the `kernels` library, run it, and compare the result with float64.

Usage: python example.py [PATH]     PATH holds the built variants; default: dist, else build, beside this file.
"""

import sys
from pathlib import Path

import torch
from kernels import get_local_kernel


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


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default_path()
    device = device_for(path)
    if device is None:
        print(f"skipped: {path} has no variant that this machine can run")
        return 0
    # Named, because a PyTorch built for CUDA asks for the CUDA variant even on a machine without a GPU.
    kernel = get_local_kernel(path, backend=device)

    torch.manual_seed(0)
    eps = 1e-6
    input = torch.randn(128, 4096, dtype=torch.bfloat16, device=device)
    weight = torch.randn(4096, dtype=torch.bfloat16, device=device)
    out = kernel.rms_norm(input, weight, eps)

    x = input.double()
    expected = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight.double()
    error = (out.double() - expected).abs()
    # One rounding to bfloat16 is at most 2^-8 of the value; the float32 arithmetic before it adds far less.
    rounding = expected.abs() * 2.0**-8 + 1e-6
    worst = (error / rounding).max().item()
    correct = worst <= 1.01
    print(f"rms-norm-strided on {device}: largest error {worst:.2f} of the rounding to bfloat16, against float64")
    print("OK" if correct else "WRONG")
    return 0 if correct else 1


if __name__ == "__main__":
    sys.exit(main())
