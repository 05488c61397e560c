"""`kernels benchmark .` runs this: our kernel against PyTorch's own fused rms_norm, verified against float64.

The runner times `benchmark_*` and, once, the matching `verify_*`, whose time it prints as the reference. So each
verify method returns what PyTorch's operator computes; the float64 check runs in its first call, before the timed one.
"""

from pathlib import Path

import torch
from kernels import get_local_kernel
from kernels.benchmark import Benchmark

EPS = 1e-6
# One rounding to the dtype, and a little for the float32 arithmetic before it.
RELATIVE = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-20}


class RmsNorm(Benchmark):
    seed = 42

    def prepare(self, rows: int, hidden: int, dtype: torch.dtype) -> None:
        if self.device == "cuda" and not torch.cuda.is_available():
            # The runner goes by how PyTorch was built; without a GPU, measure the processor instead.
            self.kernel = get_local_kernel(Path(__file__).resolve().parent.parent, backend="cpu")
            self.device = "cpu"
        self.input = torch.randn(rows, hidden, dtype=dtype, device=self.device)
        # The runner's own comparison allows 1e-2 absolute and knows no dtype. Weights up to 0.25 keep the last bit of a
        # bfloat16 result below that.
        self.weight = 0.25 * torch.rand(hidden, dtype=dtype, device=self.device)
        self.out = torch.empty_like(self.input)
        self.checked = False

    def run(self) -> None:
        self.kernel.rms_norm(self.input, self.weight, EPS, out=self.out)

    def reference(self) -> torch.Tensor:
        if not self.checked:
            self.check_against_float64()
            self.checked = True
        return torch.nn.functional.rms_norm(self.input, self.weight.shape, self.weight, EPS)

    def check_against_float64(self) -> None:
        x = self.input.double()
        expected = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + EPS) * self.weight.double()
        error = (self.out.double() - expected).abs()
        allowed = expected.abs() * RELATIVE[self.input.dtype] * 1.01 + 1e-7
        if not bool((error <= allowed).all()):
            raise RuntimeError(f"wrong result: max error {error.max().item():.3e} against float64")

    def setup_bf16_128x4096(self) -> None:
        self.prepare(128, 4096, torch.bfloat16)

    def benchmark_bf16_128x4096(self) -> None:
        self.run()

    def verify_bf16_128x4096(self) -> torch.Tensor:
        return self.reference()

    def setup_bf16_2048x4096(self) -> None:
        self.prepare(2048, 4096, torch.bfloat16)

    def benchmark_bf16_2048x4096(self) -> None:
        self.run()

    def verify_bf16_2048x4096(self) -> torch.Tensor:
        return self.reference()

    def setup_f16_2048x4096(self) -> None:
        self.prepare(2048, 4096, torch.float16)

    def benchmark_f16_2048x4096(self) -> None:
        self.run()

    def verify_f16_2048x4096(self) -> torch.Tensor:
        return self.reference()

    def setup_f32_2048x4096(self) -> None:
        self.prepare(2048, 4096, torch.float32)

    def benchmark_f32_2048x4096(self) -> None:
        self.run()

    def verify_f32_2048x4096(self) -> torch.Tensor:
        return self.reference()
