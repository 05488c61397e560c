"""Loads the kernel from the folder that is named, and calls it: python example.py ."""

import sys
from pathlib import Path

import torch
from kernels import get_local_kernel

kernel = get_local_kernel(Path(sys.argv[1]), backend="cpu")
values = torch.arange(6, dtype=torch.float32).reshape(2, 3)
assert torch.equal(kernel.scale(values, 2.0), values * 2)
print("scale on cpu: right")
