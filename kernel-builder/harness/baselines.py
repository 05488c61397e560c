"""What a kernel is compared with: PyTorch as written, its fused operator, torch.compile, cuBLASLt, and the ceilings.

Owns: which baselines there are, why one is missing, the facts that an auditor wants to know.
Never: imports a package of a candidate.

All but the ceilings are called alike and allocate what they return. `copy` moves as many bytes as the operation does at
least, into memory that exists; `peak` is a large matrix product, its time that of as many operations as the operation has.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import cublaslt
from operands import Case, Rotation, tensors
from protocol_bench import BaselineJob, LeftOut
from referee import exact_results, own_results, times, worst_excess

NAMES = ("eager", "fused", "compile", "compile-max", "cublaslt", "cublaslt-tuned", "cublaslt-turned", "copy", "peak")
MAXIMUM = "max-autotune-no-cudagraphs"
# A baseline that is further off than so many times the bound is wrong; up to it, it is less precise than it may be.
WRONG = 8.0
LEFT_OUT = "left out by --without"
PEAK_SIZE = {"cpu": 1024, "cuda": 8192}


def said(error: BaseException) -> str:
    """The first line of an exception."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300] if text else ''}"


def has_python_headers() -> bool:
    """Whether extensions can be compiled for this Python."""
    return os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))


def facts(torch: ModuleType, device: str) -> list[str]:
    """What decides how PyTorch computes."""
    found = [f"threads {torch.get_num_threads()}, between operators {torch.get_num_interop_threads()}"]
    if device == "cpu":
        found.append(
            f"capability {torch.backends.cpu.get_cpu_capability()}, mkldnn {torch.backends.mkldnn.is_available()}"
        )
        return found
    matmul = torch.backends.cuda.matmul
    names = (
        "allow_tf32",
        "fp32_precision",
        "allow_fp16_reduced_precision_reduction",
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",
    )
    for name in names:
        try:
            found.append(f"cuda.matmul.{name} = {getattr(matmul, name)}")
        except (AttributeError, RuntimeError):
            continue
    try:
        found.append(f"cudnn.allow_tf32 = {torch.backends.cudnn.allow_tf32}, version {torch.backends.cudnn.version()}")
    except (AttributeError, RuntimeError) as error:
        found.append(f"cudnn: {said(error)}")
    for name in ("CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "NVIDIA_TF32_OVERRIDE"):
        found.append(f"{name} = {os.environ.get(name, 'not set')}")
    return found


def copier(torch: ModuleType, case: Case, count: int) -> tuple[Rotation, Callable[[Any], Any]]:
    """A copy that reads and writes as many bytes as the operation does at least, rotating like the input sets."""
    size = max(1, case.bytes // 2)
    if size >= 1 << 16:
        # A ragged end makes a copy slower than its bytes explain (up to 1.4 times, seen on an H200).
        size -= size % 4096
    pairs = [
        (
            torch.randint(0, 255, (size,), dtype=torch.uint8, device=case.device),
            torch.empty(size, dtype=torch.uint8, device=case.device),
        )
        for _ in range(count)
    ]
    return Rotation(pairs), lambda pair: pair[1].copy_(pair[0])


def peak(torch: ModuleType, case: Case, dtype: Any) -> tuple[Rotation, Callable[[Any], Any], int]:
    """A large product of random matrices, and its operations."""
    size = PEAK_SIZE[case.device]
    a, b = (torch.randn(size, size, device=case.device, dtype=torch.float32).to(dtype) for _ in range(2))
    c = torch.empty(size, size, device=case.device, dtype=dtype)
    return Rotation([(a, b, c)]), lambda row: torch.matmul(row[0], row[1], out=row[2]), 2 * size**3


class Enlisting:
    """One case's baselines as they are tried, one after the other."""

    def __init__(self, torch: ModuleType, job: BaselineJob, reference: ModuleType, case: Case, station: Any) -> None:
        self.torch, self.job, self.case, self.station = torch, job, case, station
        self.eager = getattr(reference, job.reference.function)
        fused = job.reference.fused
        self.fused = getattr(reference, fused) if fused else None
        self.skipped: list[LeftOut] = []
        self.notes = facts(torch, case.device)
        (row,) = case.rotation(station.sets).fresh(0, 1)
        self.row: list[Any] = [tensor.clone() if tensor is not None else None for tensor in row]
        self.exact = exact_results(torch, job, reference, case, self.row)
        self.own = own_results(torch, job, reference, case, self.row, self.exact)

    def skip(self, name: str, reason: str) -> None:
        """Leaves a baseline out."""
        self.skipped.append(LeftOut(name=name, regime=None, reason=reason))

    def try_one(
        self,
        name: str,
        call: Callable[[Any], Any],
        needed: bool = False,
        arguments: Rotation | None = None,
        row: Sequence[Any] | None = None,
    ) -> None:
        """Warms a baseline, and takes it unless it fails or is wrong. Where it has arguments of its own, `row` are those
        of the exact results."""
        if name in self.job.without:
            return self.skip(name, LEFT_OUT)
        try:
            self.station.enlist(name, call, arguments)
        except Exception as error:
            if needed:
                raise RuntimeError(f"{name}: {said(error)}") from error
            if name.startswith("compile") and self.case.device == "cpu" and not has_python_headers():
                return self.skip(name, "torch.compile needs Python.h for the processor: apt install python3-dev")
            return self.skip(name, said(error))
        excess = 0.0
        for exact, got, own in zip(self.exact, tensors(call(row or self.row)), self.own):
            excess = max(excess, worst_excess(self.torch, self.case, self.job.tolerance, exact, got, own))
        if excess > WRONG:
            for held in (self.station.calls, self.station.arguments):
                held.pop(name, None)
            return self.skip(name, f"its output is wrong, {times(excess)}: no ratio is made with it")
        if excess > 1.0:
            self.notes.append(f"{name} is {times(excess)} for the tolerance of op.toml")
        return None

    def of(self, function: Callable[..., Any]) -> Callable[[Any], Any]:
        """A function of the inputs alone."""
        scalars = self.case.scalars
        return lambda inputs: function(*inputs, **scalars)

    def compiled(self, name: str, mode: str | None) -> None:
        """torch.compile of the reference, and whether all of it was compiled."""
        if name in self.job.without:
            return self.skip(name, LEFT_OUT)
        dynamo = self.torch._dynamo
        dynamo.utils.counters.clear()
        self.try_one(name, self.of(self.torch.compile(self.eager, dynamic=False, mode=mode)))
        if name in self.station.calls:
            breaks = sum(dynamo.utils.counters["graph_break"].values())
            graphs = dynamo.utils.counters["stats"].get("unique_graphs", 0)
            self.notes.append(f"{name}: mode {mode or 'default'}, {graphs} graphs, {breaks} breaks")
        return None

    def library(self, product: cublaslt.Product) -> None:
        """cuBLASLt for a matrix product: the first algorithm of its heuristic, the best of all that it returns, and the best
        with the right operand stored the other way round."""
        for name, asked in (("cublaslt", 1), ("cublaslt-tuned", 100)):
            if name in self.job.without:
                self.skip(name, LEFT_OUT)
                continue
            try:
                matmul = cublaslt.Matmul(self.torch, product, self.row)
                note = matmul.choose(asked, self.station.sets)
            except Exception as error:
                self.skip(name, said(error))
                continue
            self.notes.append(f"{name}: {note}")
            self.try_one(name, matmul)
        name = "cublaslt-turned"
        if name in self.job.without:
            return self.skip(name, LEFT_OUT)
        try:
            other, rows = product.turned([*self.station.sets, self.row])
            row = rows.pop()
            matmul = cublaslt.Matmul(self.torch, other, row)
            note = matmul.choose(100, rows)
        except Exception as error:
            return self.skip(name, said(error))
        self.notes.append(f"{name}: {note}")
        return self.try_one(name, matmul, arguments=Rotation(rows), row=row)


def possible(job: BaselineJob, case: Case) -> list[str]:
    """The baselines that a case may have, as far as its description tells: what they need is kept free."""
    absent = set(job.without)
    if not job.reference.fused:
        absent.add("fused")
    if not cublaslt.may_be_product(case):
        absent.update(name for name in NAMES if name.startswith("cublaslt") or name == "peak")
    return [name for name in NAMES if name not in absent]


def enlist(
    torch: ModuleType, job: BaselineJob, reference: ModuleType, case: Case, station: Any
) -> tuple[list[LeftOut], list[str]]:
    """Adds every baseline that can be timed; those left out with the reason, and the auditor's notes."""
    if not {"compile", "compile-max"} <= set(job.without):
        # A second to import.
        import torch._dynamo

        torch._dynamo.reset()
    one = Enlisting(torch, job, reference, case, station)
    one.try_one("eager", one.of(one.eager), needed=not case.has_float8())
    if one.fused:
        one.try_one("fused", one.of(one.fused))
    one.compiled("compile", None)
    product = cublaslt.product_of(torch, case, one.row, one.exact)
    if case.device == "cuda" or product:
        one.compiled("compile-max", MAXIMUM)
    else:
        one.skip("compile-max", "on a processor max-autotune differs for matrix products only")
    if product and case.device == "cuda":
        one.library(product)
    rotation, copy = copier(torch, case, len(station.sets))
    station.enlist("copy", copy, rotation)
    if product:
        rotation, call, operations = peak(torch, case, product.dtype)
        station.enlist("peak", call, rotation)
        station.parts["peak"] = product.operations / operations
        one.notes.append(f"peak: a product of {PEAK_SIZE[case.device]} cubed in {product.dtype}")
    return one.skipped, one.notes
