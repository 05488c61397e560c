"""Matrix products by cuBLASLt, called through ctypes.

Owns: when an operation is a matrix product, the descriptors, the choice among the algorithms that the library offers.
Never: allocates while it is timed, but for the output.

Numbers and layouts are those of cublasLt.h and library_types.h of CUDA 12 and 13. The library is column-major: it is asked
for the transpose of the output, from the operands in reverse order.
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from operands import Case

CUDA_TYPES = {"float16": 2, "bfloat16": 14, "float32": 0}
COMPUTE_32F, COMPUTE_32F_TF32, REAL_32F = 68, 77, 0
DESC_TRANSA, DESC_TRANSB, OP_N, OP_T = 3, 4, 0, 1
PREFERENCE_WORKSPACE = 1
# The library's own advice: 32 MiB from Hopper on.
WORKSPACE = {True: 32 << 20, False: 4 << 20}
ROUNDS = 10


class Algorithm(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64 * 8)]


class Heuristic(ctypes.Structure):
    _fields_ = [
        ("algorithm", Algorithm),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


class Product:
    """`left @ right`, each transposed or not, by their places among the inputs."""

    def __init__(
        self,
        left: int,
        right: int,
        flipped: tuple[bool, bool],
        shape: list[int],
        lengths: tuple[int, int, int],
        dtype: Any,
    ) -> None:
        self.left, self.right = left, right
        self.left_flipped, self.right_flipped = flipped
        self.shape = shape
        self.rows, self.columns, self.inner = lengths
        self.dtype = dtype
        self.operations = 2 * self.rows * self.columns * self.inner
        self.stored = "operands as the operation has them"

    def turned(self, rows: list[list[Any]]) -> tuple[Product, list[list[Any]]]:
        """The same with the right operand stored the other way round, as weights may be: it is added to each row."""
        flipped = (self.left_flipped, not self.right_flipped)
        lengths = (self.rows, self.columns, self.inner)
        other = Product(self.left, len(rows[0]), flipped, self.shape, lengths, self.dtype)
        other.stored = "the right operand stored the other way round"
        return other, [[*row, row[self.right].T.contiguous()] for row in rows]


def may_be_product(case: Case) -> bool:
    """Whether the shapes and dtypes of a case are those of a matrix product."""
    if len(case.outputs) != 1 or case.overwritten:
        return False
    dtype = case.outputs[0].dtype
    alike = [tensor.shape for tensor in case.inputs if not tensor.omitted and tensor.dtype == dtype]
    operands = [shape for shape in alike if len(shape) >= 2]
    return len(operands) >= 2 and any(len(shape) == 2 for shape in operands)


def product_of(torch: ModuleType, case: Case, row: Sequence[Any], exact: list[Any]) -> Product | None:
    """The product that the operation is, by its result in float64; None when it is none."""
    if len(case.outputs) != 1 or case.overwritten or exact[0].dim() < 2 or not exact[0].dtype.is_floating_point:
        return None
    output = case.dtypes[case.outputs[0].dtype]
    if str(output).removeprefix("torch.") not in CUDA_TYPES or exact[0].numel() == 0:
        return None
    operands = [
        place for place, tensor in enumerate(row) if tensor is not None and tensor.dtype == output and tensor.dim() >= 2
    ]
    target = exact[0].reshape(-1, exact[0].shape[-1])
    for left in operands:
        for right in operands:
            if left == right or row[right].dim() != 2:
                continue
            flat = row[left].reshape(-1, row[left].shape[-1]).to(torch.float64)
            other = row[right].to(torch.float64)
            for flipped in ((False, False), (False, True), (True, False), (True, True)):
                a, b = (flat.T if flipped[0] else flat), (other.T if flipped[1] else other)
                if a.shape[1] != b.shape[0] or (a.shape[0], b.shape[1]) != tuple(target.shape):
                    continue
                # Some rows first: few operations are a product, and none by chance.
                if not torch.allclose(a[:2] @ b, target[:2], rtol=1e-9, atol=1e-9):
                    continue
                if torch.allclose(a @ b, target, rtol=1e-9, atol=1e-9):
                    lengths = (a.shape[0], b.shape[1], a.shape[1])
                    return Product(left, right, flipped, list(exact[0].shape), lengths, output)
    return None


def library(torch: ModuleType) -> ctypes.CDLL:
    """The library that PyTorch has loaded, else the one of the system."""
    major = (torch.version.cuda or "").split(".")[0]
    name = f"libcublasLt.so.{major}"
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        loaded = [line.split()[-1] for line in maps if line.rstrip().endswith(name)]
    beside = glob.glob(os.path.join(os.path.dirname(torch.__file__ or ""), "..", "nvidia", "*", "lib", name))
    for path in (*loaded[:1], *beside, name):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise OSError(f"{name} is not here")


class Matmul:
    """One product with a chosen algorithm; called with one input set, returns the output."""

    def __init__(self, torch: ModuleType, product: Product, row: Sequence[Any]) -> None:
        self.torch, self.product = torch, product
        self.lt = library(torch)
        self.lt.cublasLtMatmul.argtypes = [ctypes.c_void_p] * 14 + [ctypes.c_size_t, ctypes.c_void_p]
        self.size = WORKSPACE[torch.cuda.get_device_capability()[0] >= 9]
        self.workspace = torch.empty(self.size, dtype=torch.uint8, device="cuda")
        self.one, self.zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self.handle = self.make("cublasLtCreate")
        kind = CUDA_TYPES[str(product.dtype).removeprefix("torch.")]
        tf32 = product.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32
        compute = COMPUTE_32F_TF32 if tf32 else COMPUTE_32F
        self.descriptor = self.make("cublasLtMatmulDescCreate", ctypes.c_int(compute), ctypes.c_int(REAL_32F))
        # The right operand comes first. Stored by rows, a matrix is its transpose to the library, so what is flipped for
        # PyTorch is flipped here, too.
        for attribute, flipped in ((DESC_TRANSA, product.right_flipped), (DESC_TRANSB, product.left_flipped)):
            self.set(
                "cublasLtMatmulDescSetAttribute", self.descriptor, attribute, ctypes.c_int32(OP_T if flipped else OP_N)
            )
        left = row[product.left].reshape(-1, row[product.left].shape[-1])
        self.first = self.layout(kind, row[product.right].shape)
        self.second = self.layout(kind, left.shape)
        self.out = self.layout(kind, (product.rows, product.columns))
        self.algorithm: Algorithm | None = None

    def check(self, status: int, name: str) -> None:
        """Raise what the library complains of."""
        if status != 0:
            raise RuntimeError(f"{name} gave status {status}")

    def make(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """A new object of the library."""
        made = ctypes.c_void_p()
        self.check(getattr(self.lt, name)(ctypes.byref(made), *arguments), name)
        return made

    def set(self, name: str, of: ctypes.c_void_p, attribute: int, value: Any) -> None:
        """Set an attribute of an object."""
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self.check(getattr(self.lt, name)(of, ctypes.c_int(attribute), ctypes.byref(value), size), name)

    def layout(self, kind: int, shape: Sequence[int]) -> ctypes.c_void_p:
        """A matrix that is stored by rows, as the library sees it."""
        rows, columns = ctypes.c_uint64(shape[1]), ctypes.c_uint64(shape[0])
        return self.make("cublasLtMatrixLayoutCreate", ctypes.c_int(kind), rows, columns, ctypes.c_int64(shape[1]))

    def choose(self, asked: int, sets: Sequence[Any]) -> str:
        """Takes the best of so many algorithms; says how many there were."""
        preference = self.make("cublasLtMatmulPreferenceCreate")
        self.set("cublasLtMatmulPreferenceSetAttribute", preference, PREFERENCE_WORKSPACE, ctypes.c_uint64(self.size))
        found, count = (Heuristic * asked)(), ctypes.c_int(0)
        status = self.lt.cublasLtMatmulAlgoGetHeuristic(
            self.handle,
            self.descriptor,
            self.first,
            self.second,
            self.out,
            self.out,
            preference,
            ctypes.c_int(asked),
            found,
            ctypes.byref(count),
        )
        self.check(status, "cublasLtMatmulAlgoGetHeuristic")
        usable = [one for one in found[: count.value] if one.state == 0]
        if not usable:
            raise RuntimeError("cuBLASLt offers no algorithm")
        timed = (
            [(self.time(one.algorithm, sets), place) for place, one in enumerate(usable)]
            if len(usable) > 1
            else [(0.0, 0)]
        )
        best = min(timed)[1]
        self.algorithm = usable[best].algorithm
        return (
            f"algorithm {best + 1} of {len(usable)}, workspace {usable[best].workspace} of {self.size} bytes, "
            f"{self.product.stored}"
        )

    def time(self, algorithm: Algorithm, sets: Sequence[Any]) -> float:
        """The median time of some calls on rotating sets."""
        torch = self.torch
        times: list[float] = []
        self.algorithm = algorithm
        for step in range(ROUNDS + 2):
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(200_000)
            before.record()
            try:
                self(sets[step % len(sets)])
            except RuntimeError:
                return float("inf")
            after.record()
            torch.cuda.synchronize()
            times.append(before.elapsed_time(after))
        return sorted(times[2:])[ROUNDS // 2]

    def __call__(self, inputs: Sequence[Any]) -> Any:
        torch, product = self.torch, self.product
        output = torch.empty(product.shape, dtype=product.dtype, device="cuda")
        pointer, algorithm = output.data_ptr(), self.algorithm
        if algorithm is None:
            raise RuntimeError("no algorithm is chosen")
        status = self.lt.cublasLtMatmul(
            self.handle,
            self.descriptor,
            ctypes.addressof(self.one),
            inputs[product.right].data_ptr(),
            self.first,
            inputs[product.left].data_ptr(),
            self.second,
            ctypes.addressof(self.zero),
            pointer,
            self.out,
            pointer,
            self.out,
            ctypes.addressof(algorithm),
            self.workspace.data_ptr(),
            self.size,
            torch.cuda.current_stream().cuda_stream,
        )
        self.check(status, "cublasLtMatmul")
        return output
