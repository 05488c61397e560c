"""Tripwires in the candidate's process: what a package must leave alone, and which files it opens.

Owns: the list of functions and settings that are compared, the record of opened files and of connections.
Never: stops a package; it says what was seen, and the judge decides.

A package in the same process can undo any of this, so nothing rests on it: results are compared elsewhere, by values that
this process never sees, and times are taken elsewhere. What it finds is a reason to refuse, its silence is none to trust.
"""

import builtins
import importlib
import importlib.util
import json
import os
import socket
import sys
import sysconfig
import time
from types import ModuleType
from typing import Any

import torch

# Functions by which a kernel is judged or timed, here or by those who measure it elsewhere.
WATCHED = {
    time: ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "sleep", "time", "time_ns"),
    os: ("_exit", "dup", "dup2", "fsync", "replace", "write"),
    builtins: ("__import__", "open", "print"),
    json: ("dumps", "loads"),
    torch: (
        "allclose",
        "empty",
        "equal",
        "full",
        "isclose",
        "isfinite",
        "isnan",
        "manual_seed",
        "no_grad",
        "rand",
        "randint",
        "randn",
    ),
    torch.Tensor: ("allclose", "clone", "copy_", "cpu", "equal", "fill_", "isnan", "__eq__", "__sub__", "to", "view"),
    torch.autograd: ("grad",),
    torch.cuda: ("Event", "Stream", "_sleep", "current_stream", "stream", "synchronize"),
    torch.cuda.Event: ("elapsed_time", "query", "record", "synchronize", "wait"),
    torch.cuda.Stream: ("synchronize", "wait_event", "wait_stream"),
    torch.testing: ("assert_close",),
}
# The harness's own modules: every function and method of them.
HARNESS = ("candidate", "channel", "groups", "kept", "tensors", "watch", "wire")


def own_functions(module: ModuleType) -> list[tuple[Any, str]]:
    """`(owner, name)` of every function of a module and of its classes."""
    found: list[tuple[Any, str]] = []
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        found.append((module, name))
        if isinstance(value, type):
            found += [(value, inner) for inner, method in vars(value).items() if callable(method)]
    return found


def said(owner: Any, name: str) -> str:
    """`torch.cuda.Event.record`."""
    inside = getattr(owner, "__module__", None) if isinstance(owner, type) else None
    return ".".join(part for part in (inside, getattr(owner, "__qualname__", owner.__name__), name) if part)


def settings() -> dict[str, Any]:
    """What holds for a whole process, by the name under which PyTorch sets it."""
    return {
        "the default dtype": torch.get_default_dtype(),
        "the number of threads": torch.get_num_threads(),
        "whether gradients are recorded": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "the precision of float32 matrix products": torch.get_float32_matmul_precision(),
        "TF32 in cuDNN": torch.backends.cudnn.allow_tf32,
        "cuDNN": torch.backends.cudnn.enabled,
        "cuDNN's search": torch.backends.cudnn.benchmark,
        "reductions of float16 in float16": torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        "reductions of bfloat16 in bfloat16": torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "attention by flash": torch.backends.cuda.flash_sdp_enabled(),
        "attention in blocks of memory": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "attention by plain operators": torch.backends.cuda.math_sdp_enabled(),
        "MKL-DNN": torch.backends.mkldnn.enabled,
        # There is no other way to ask than to compute with one.
        "how tiny numbers are rounded": bool(torch.tensor(2.0**-140) * 1.0 == 0.0),
        "a function that traces all Python": sys.gettrace() or sys.getprofile(),
    }


class Watch:
    """Begins before the package is imported."""

    def __init__(self, package: str) -> None:
        places = [(owner, name) for owner, names in WATCHED.items() for name in names]
        for name in HARNESS:
            places += own_functions(importlib.import_module(name))
        self._before = [(owner, name, getattr(owner, name, None)) for owner, name in places]
        self._settings = settings()
        self._passed_over = tuple(
            os.path.realpath(folder) + os.sep
            for folder in (
                package,
                sys.prefix,
                sys.base_prefix,
                *sysconfig.get_paths().values(),
                *filter(None, sys.path),
            )
        )
        self._opened: dict[str, None] = {}
        self._connections: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Keep what matters of the events that Python tells of itself."""
        if event == "open" and isinstance(arguments[0], str) and arguments[0].endswith((".py", ".pyc")):
            self._opened[arguments[0]] = None
        elif event == "socket.connect" and getattr(arguments[0], "family", None) != socket.AF_UNIX:
            self._connections.append(str(arguments[1]))
        elif event == "socket.getaddrinfo":
            self._connections.append(f"{arguments[0]}:{arguments[1]}")

    def tampered(self) -> str | None:
        """A function that is another one than before, if there is one."""
        for owner, name, before in self._before:
            now = getattr(owner, name, None)
            if now is not before and not bound_alike(now, before) and not marked(now, before):
                return f"the package has put another function in the place of `{said(owner, name)}`"
        return None

    def unsettled(self) -> str | None:
        """A setting of the process that is not as it was, if there is one."""
        for name, value in settings().items():
            before = self._settings[name]
            if value != before:
                return f"the package has changed a setting of the whole process: {name} was {before} and is {value}"
        return None

    def reached_out(self) -> str | None:
        """An address that the package asked for, if there is one."""
        return f"the package asked the network for {self._connections[0]}" if self._connections else None

    def opened(self) -> list[str]:
        """Python files that were opened, but for those of the package, of Python and of the harness."""
        found: list[str] = []
        for path in self._opened:
            source = path
            if path.endswith(".pyc"):
                try:
                    source = importlib.util.source_from_cache(path)
                except ValueError:
                    continue
            real = os.path.realpath(source)
            if not real.startswith(self._passed_over):
                found.append(real)
        return sorted(set(found))


def bound_alike(one: Any, other: Any) -> bool:
    """Whether two methods are the same function of the same object; each look makes new ones."""
    function = getattr(one, "__func__", None)
    return function is not None and function is getattr(other, "__func__", None) and one.__self__ is other.__self__


def marked(now: Any, before: Any) -> bool:
    """Whether PyTorch's compiler has put a function in an envelope, as it does with `torch.manual_seed` when something
    imports it; it keeps what is inside."""
    return before is not None and before in (
        getattr(now, "_torchdynamo_orig_callable", None),
        getattr(now, "__wrapped__", None),
    )
