"""cuBLASLt, tuned: every algorithm that it proposes for a product can be called, so that the fastest can be found.

PyTorch calls the first proposal only. The library is the one that PyTorch has loaded. Needs a GPU.
"""

import ctypes

# From cublasLt.h and library_types.h.
COMPUTE_FLOAT32 = 68
TYPE_FLOAT32 = 0
TYPES = {"bfloat16": 14, "float16": 2}
TRANSPOSE_FIRST = 3
LARGEST_WORKSPACE = 1
#: The most algorithms that a request may return. There are usually 3 to 8.
ASKED = 100


class Algorithm(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algo", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class CublasLt:
    """Products of row-major matrices, out [m, n] = a [m, k] times the transpose of b [n, k], with sums in float32."""

    def __init__(self, torch, workspace_bytes: int = 64 << 20):
        """Raises OSError if PyTorch's CUDA has no libcublasLt."""
        self.torch = torch
        self.library = ctypes.CDLL(f"libcublasLt.so.{torch.version.cuda.split('.')[0]}")
        self.library.cublasLtGetVersion.restype = ctypes.c_size_t
        self.workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device="cuda")
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)
        self.handle = ctypes.c_void_p()
        self._call("cublasLtCreate", ctypes.byref(self.handle))

    @property
    def version(self) -> str:
        """Such as 13.1.0."""
        number = self.library.cublasLtGetVersion()
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def product(self, dtype, m: int, n: int, k: int) -> "Product":
        """Prepares products of m by k and n by k matrices in `dtype`, which is bfloat16 or float16."""
        return Product(self, TYPES[str(dtype).removeprefix("torch.")], m, n, k)

    def _call(self, name: str, *arguments) -> None:
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: status {status}")


class Product:
    """The proposals for a product, in the order of cuBLASLt: `algorithms`."""

    def __init__(self, library: CublasLt, dtype: int, m: int, n: int, k: int):
        # The library knows matrices by columns: it computes the transpose of out, which is the transpose of (a^T)^T b^T.
        self.library = library
        self.description = self._made("cublasLtMatmulDescCreate", ctypes.c_int(COMPUTE_FLOAT32), ctypes.c_int(TYPE_FLOAT32))
        transposed = ctypes.c_int32(1)
        library._call(
            "cublasLtMatmulDescSetAttribute",
            self.description,
            ctypes.c_int(TRANSPOSE_FIRST),
            ctypes.byref(transposed),
            ctypes.c_size_t(4),
        )
        self.b, self.a, self.out = (self._layout(dtype, *lengths) for lengths in ((k, n), (k, m), (n, m)))
        preference = self._made("cublasLtMatmulPreferenceCreate")
        most = ctypes.c_uint64(library.workspace.numel())
        library._call(
            "cublasLtMatmulPreferenceSetAttribute",
            preference,
            ctypes.c_int(LARGEST_WORKSPACE),
            ctypes.byref(most),
            ctypes.c_size_t(8),
        )
        proposals, count = (Algorithm * ASKED)(), ctypes.c_int()
        library._call(
            "cublasLtMatmulAlgoGetHeuristic",
            library.handle,
            self.description,
            self.b,
            self.a,
            self.out,
            self.out,
            preference,
            ctypes.c_int(ASKED),
            proposals,
            ctypes.byref(count),
        )
        library._call("cublasLtMatmulPreferenceDestroy", preference)
        self.algorithms = [one for one in proposals[: count.value] if one.state == 0]

    def __call__(self, algorithm: Algorithm, a, b, out) -> None:
        """Begins the product on PyTorch's current stream."""
        library = self.library
        library._call(
            "cublasLtMatmul",
            library.handle,
            self.description,
            ctypes.byref(library.one),
            ctypes.c_void_p(b.data_ptr()),
            self.b,
            ctypes.c_void_p(a.data_ptr()),
            self.a,
            ctypes.byref(library.zero),
            ctypes.c_void_p(out.data_ptr()),
            self.out,
            ctypes.c_void_p(out.data_ptr()),
            self.out,
            ctypes.byref(algorithm.algo),
            ctypes.c_void_p(library.workspace.data_ptr()),
            ctypes.c_size_t(library.workspace.numel()),
            ctypes.c_void_p(library.torch.cuda.current_stream().cuda_stream),
        )

    def close(self) -> None:
        """Frees the descriptions."""
        for layout in (self.a, self.b, self.out):
            self.library._call("cublasLtMatrixLayoutDestroy", layout)
        self.library._call("cublasLtMatmulDescDestroy", self.description)

    def _layout(self, dtype: int, rows: int, columns: int) -> ctypes.c_void_p:
        return self._made(
            "cublasLtMatrixLayoutCreate", ctypes.c_int(dtype), ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
        )

    def _made(self, function: str, *arguments) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.library._call(function, ctypes.byref(made), *arguments)
        return made
