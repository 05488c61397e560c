"""`kernels benchmark .` runs this: our kernel against PyTorch's own fused operator, verified against float64.

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


class RmsNorm(Benchmark):
    seed = 42

    def prepare(self, axes: dict, dtypes: dict) -> None:
        if self.device == "cuda" and not torch.cuda.is_available():
            # The runner goes by how PyTorch was built; without a GPU, measure the processor instead.
            self.kernel = get_local_kernel(Path(__file__).resolve().parent.parent, backend="cpu")
            self.device = "cpu"
        self.arguments = [
            values([axes["rows"], axes["hidden"]], dtypes["T"], self.device),
            values([axes["hidden"]], dtypes["T"], self.device),
        ]
        self.checked = False

    def run(self) -> None:
        result = self.kernel.rms_norm(*self.arguments)
        self.out = result[0] if isinstance(result, tuple) else result

    def reference(self) -> torch.Tensor:
        if not self.checked:
            self.check_against_float64()
            self.checked = True
        result = reference.rms_norm_fused(*self.arguments)
        return result[0] if isinstance(result, tuple) else result

    def check_against_float64(self) -> None:
        exact = reference.rms_norm(*[a.double() if a.is_floating_point() else a for a in self.arguments])
        expected = (exact[0] if isinstance(exact, tuple) else exact).double()
        error = (self.out.double() - expected).abs()
        relative = torch.finfo(self.out.dtype).eps if self.out.dtype.is_floating_point else 0.0
        allowed = expected.abs() * relative + expected.abs().mean() * 4e-6 + 1e-7
        if not bool((error <= allowed).all()):
            raise RuntimeError(f"wrong result: max error {error.max().item():.3e} against float64")

    def setup_bfloat16_cpu_decode_4096(self) -> None:
        self.prepare({"hidden": 4096, "rows": 1}, {"T": torch.bfloat16})

    def benchmark_bfloat16_cpu_decode_4096(self) -> None:
        self.run()

    def verify_bfloat16_cpu_decode_4096(self) -> torch.Tensor:
        return self.reference()

    def setup_float16_cpu_decode_4096(self) -> None:
        self.prepare({"hidden": 4096, "rows": 1}, {"T": torch.float16})

    def benchmark_float16_cpu_decode_4096(self) -> None:
        self.run()

    def verify_float16_cpu_decode_4096(self) -> torch.Tensor:
        return self.reference()

    def setup_float32_cpu_decode_4096(self) -> None:
        self.prepare({"hidden": 4096, "rows": 1}, {"T": torch.float32})

    def benchmark_float32_cpu_decode_4096(self) -> None:
        self.run()

    def verify_float32_cpu_decode_4096(self) -> torch.Tensor:
        return self.reference()

    def setup_bfloat16_cpu_128x4096(self) -> None:
        self.prepare({"hidden": 4096, "rows": 128}, {"T": torch.bfloat16})

    def benchmark_bfloat16_cpu_128x4096(self) -> None:
        self.run()

    def verify_bfloat16_cpu_128x4096(self) -> torch.Tensor:
        return self.reference()

    def setup_float16_cpu_128x4096(self) -> None:
        self.prepare({"hidden": 4096, "rows": 128}, {"T": torch.float16})

    def benchmark_float16_cpu_128x4096(self) -> None:
        self.run()

    def verify_float16_cpu_128x4096(self) -> torch.Tensor:
        return self.reference()

    def setup_float32_cpu_128x4096(self) -> None:
        self.prepare({"hidden": 4096, "rows": 128}, {"T": torch.float32})

    def benchmark_float32_cpu_128x4096(self) -> None:
        self.run()

    def verify_float32_cpu_128x4096(self) -> torch.Tensor:
        return self.reference()

    def setup_bfloat16_cpu_512x2048(self) -> None:
        self.prepare({"hidden": 2048, "rows": 512}, {"T": torch.bfloat16})

    def benchmark_bfloat16_cpu_512x2048(self) -> None:
        self.run()

    def verify_bfloat16_cpu_512x2048(self) -> torch.Tensor:
        return self.reference()

    def setup_float16_cpu_512x2048(self) -> None:
        self.prepare({"hidden": 2048, "rows": 512}, {"T": torch.float16})

    def benchmark_float16_cpu_512x2048(self) -> None:
        self.run()

    def verify_float16_cpu_512x2048(self) -> torch.Tensor:
        return self.reference()

    def setup_float32_cpu_512x2048(self) -> None:
        self.prepare({"hidden": 2048, "rows": 512}, {"T": torch.float32})

    def benchmark_float32_cpu_512x2048(self) -> None:
        self.run()

    def verify_float32_cpu_512x2048(self) -> torch.Tensor:
        return self.reference()

    def setup_bfloat16_cpu_prefill_1024x4096(self) -> None:
        self.prepare({"hidden": 4096, "rows": 1024}, {"T": torch.bfloat16})

    def benchmark_bfloat16_cpu_prefill_1024x4096(self) -> None:
        self.run()

    def verify_bfloat16_cpu_prefill_1024x4096(self) -> torch.Tensor:
        return self.reference()

    def setup_float32_cpu_prefill_1024x4096(self) -> None:
        self.prepare({"hidden": 4096, "rows": 1024}, {"T": torch.float32})

    def benchmark_float32_cpu_prefill_1024x4096(self) -> None:
        self.run()

    def verify_float32_cpu_prefill_1024x4096(self) -> torch.Tensor:
        return self.reference()

    def setup_bfloat16_cpu_1x8192(self) -> None:
        self.prepare({"hidden": 8192, "rows": 1}, {"T": torch.bfloat16})

    def benchmark_bfloat16_cpu_1x8192(self) -> None:
        self.run()

    def verify_bfloat16_cpu_1x8192(self) -> torch.Tensor:
        return self.reference()
