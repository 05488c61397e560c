"""`kernels benchmark .` runs this: our kernel against plain PyTorch, verified against float64.

The runner times `benchmark_*` and, once, the matching `verify_*`, whose time it prints as the reference. So each
verify method returns what PyTorch computes; the float64 check runs in its first call, before the timed one.
"""

import sys
from pathlib import Path

import torch
from kernels import get_local_kernel
from kernels.benchmark import Benchmark

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import reference


def values(shape: list, dtype: torch.dtype, device: str) -> torch.Tensor:
    # The runner's own comparison allows 1e-2 absolute and knows no dtype: small values keep the last bit of a bfloat16
    # result below that.
    if dtype.is_floating_point:
        return (0.25 * torch.randn(shape)).to(dtype).to(device)
    return torch.randint(0, 2, shape).to(dtype).to(device)


class CrossEntropy(Benchmark):
    seed = 42

    def prepare(self, axes: dict, dtypes: dict) -> None:
        if self.device == "cuda" and not torch.cuda.is_available():
            # The runner goes by how PyTorch was built; without a GPU, measure the processor instead.
            self.kernel = get_local_kernel(Path(__file__).resolve().parent.parent, backend="cpu")
            self.device = "cpu"
        self.arguments = [
            values([axes["rows"], axes["vocabulary"]], dtypes["T"], self.device),
            values([axes["rows"]], torch.int64, self.device),
        ]
        self.checked = False

    def run(self) -> None:
        result = self.kernel.cross_entropy(*self.arguments)
        self.out = result[0] if isinstance(result, tuple) else result

    def reference(self) -> torch.Tensor:
        if not self.checked:
            self.check_against_float64()
            self.checked = True
        result = reference.cross_entropy(*self.arguments)
        return result[0] if isinstance(result, tuple) else result

    def check_against_float64(self) -> None:
        exact = reference.cross_entropy(*[a.double() if a.is_floating_point() else a for a in self.arguments])
        expected = (exact[0] if isinstance(exact, tuple) else exact).double()
        error = (self.out.double() - expected).abs()
        relative = torch.finfo(self.out.dtype).eps if self.out.dtype.is_floating_point else 0.0
        allowed = expected.abs() * relative + expected.abs().mean() * 4e-6 + 1e-7
        if not bool((error <= allowed).all()):
            raise RuntimeError(f"wrong result: max error {error.max().item():.3e} against float64")

    def setup_bfloat16_rows_4096x128256(self) -> None:
        self.prepare({"rows": 4096, "vocabulary": 128256}, {"T": torch.bfloat16})

    def benchmark_bfloat16_rows_4096x128256(self) -> None:
        self.run()

    def verify_bfloat16_rows_4096x128256(self) -> torch.Tensor:
        return self.reference()

    def setup_bfloat16_rows_8192x32000(self) -> None:
        self.prepare({"rows": 8192, "vocabulary": 32000}, {"T": torch.bfloat16})

    def benchmark_bfloat16_rows_8192x32000(self) -> None:
        self.run()

    def verify_bfloat16_rows_8192x32000(self) -> torch.Tensor:
        return self.reference()

    def setup_bfloat16_rows_4096x50257(self) -> None:
        self.prepare({"rows": 4096, "vocabulary": 50257}, {"T": torch.bfloat16})

    def benchmark_bfloat16_rows_4096x50257(self) -> None:
        self.run()

    def verify_bfloat16_rows_4096x50257(self) -> torch.Tensor:
        return self.reference()

    def setup_bfloat16_rows_16x128256(self) -> None:
        self.prepare({"rows": 16, "vocabulary": 128256}, {"T": torch.bfloat16})

    def benchmark_bfloat16_rows_16x128256(self) -> None:
        self.run()

    def verify_bfloat16_rows_16x128256(self) -> torch.Tensor:
        return self.reference()

    def setup_bfloat16_cpu_16x32000(self) -> None:
        self.prepare({"rows": 16, "vocabulary": 32000}, {"T": torch.bfloat16})

    def benchmark_bfloat16_cpu_16x32000(self) -> None:
        self.run()

    def verify_bfloat16_cpu_16x32000(self) -> torch.Tensor:
        return self.reference()

    def setup_float16_cpu_16x32000(self) -> None:
        self.prepare({"rows": 16, "vocabulary": 32000}, {"T": torch.float16})

    def benchmark_float16_cpu_16x32000(self) -> None:
        self.run()

    def verify_float16_cpu_16x32000(self) -> torch.Tensor:
        return self.reference()

    def setup_float32_cpu_16x32000(self) -> None:
        self.prepare({"rows": 16, "vocabulary": 32000}, {"T": torch.float32})

    def benchmark_float32_cpu_16x32000(self) -> None:
        self.run()

    def verify_float32_cpu_16x32000(self) -> torch.Tensor:
        return self.reference()

    def setup_bfloat16_cpu_128x32000(self) -> None:
        self.prepare({"rows": 128, "vocabulary": 32000}, {"T": torch.bfloat16})

    def benchmark_bfloat16_cpu_128x32000(self) -> None:
        self.run()

    def verify_bfloat16_cpu_128x32000(self) -> torch.Tensor:
        return self.reference()

    def setup_float16_cpu_128x32000(self) -> None:
        self.prepare({"rows": 128, "vocabulary": 32000}, {"T": torch.float16})

    def benchmark_float16_cpu_128x32000(self) -> None:
        self.run()

    def verify_float16_cpu_128x32000(self) -> torch.Tensor:
        return self.reference()

    def setup_float32_cpu_128x32000(self) -> None:
        self.prepare({"rows": 128, "vocabulary": 32000}, {"T": torch.float32})

    def benchmark_float32_cpu_128x32000(self) -> None:
        self.run()

    def verify_float32_cpu_128x32000(self) -> torch.Tensor:
        return self.reference()

    def setup_bfloat16_cpu_128x50257(self) -> None:
        self.prepare({"rows": 128, "vocabulary": 50257}, {"T": torch.bfloat16})

    def benchmark_bfloat16_cpu_128x50257(self) -> None:
        self.run()

    def verify_bfloat16_cpu_128x50257(self) -> torch.Tensor:
        return self.reference()

    def setup_float32_cpu_128x50257(self) -> None:
        self.prepare({"rows": 128, "vocabulary": 50257}, {"T": torch.float32})

    def benchmark_float32_cpu_128x50257(self) -> None:
        self.run()

    def verify_float32_cpu_128x50257(self) -> torch.Tensor:
        return self.reference()
