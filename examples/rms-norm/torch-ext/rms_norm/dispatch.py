"""Which calls PyTorch serves, because the kernel was not measured to be faster there.

`dispatch.json` beside this file says for which devices, dtypes and lengths the kernel is called; it is put there when the
package is made, from measurements. Without that file, or on a device that it does not name, every call is the kernel's.
"""

import json
from pathlib import Path

import torch

# The axes whose lengths callers choose, as the table names them.
AXES = ["hidden", "rows"]
_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def _read(path: Path) -> dict:
    """`{device: {dtype: ranges}}`, each range as the least and the greatest length of each axis in turn."""
    if not path.exists():
        return {}
    table = json.loads(path.read_text(encoding="utf-8"))
    if table["format"] != 1 or table["axes"] != AXES:
        return {}
    return {
        device: {_DTYPES[name]: tuple(map(tuple, ranges)) for name, ranges in dtypes.items() if name in _DTYPES}
        for device, dtypes in table["devices"].items()
    }


_TABLES = _read(Path(__file__).with_name("dispatch.json"))
# Without one, callers need not ask.
has_tables = bool(_TABLES)
# Ranges by (number of the device, dtype); None where no table names the device.
_KNOWN: dict = {}


def _ranges_of(number: int, dtype: torch.dtype):
    """The ranges of a device, asked for its name; it cannot become another while a process runs."""
    if number >= 0:
        ranges = _TABLES.get(torch.cuda.get_device_name(number))
    else:
        ranges = _TABLES.get(_processor())
    return None if ranges is None else ranges.get(dtype, ())


# The mark that `torch.compiler.assume_constant_result` sets. That function imports the compiler, which takes a second.
_ranges_of._dynamo_marked_constant = True


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def pytorch_serves(first: torch.Tensor, lengths) -> bool:
    """Whether a call without outputs is PyTorch's. `lengths()` are those of `AXES`."""
    if not _TABLES:
        return False
    key = (first.get_device(), first.dtype)
    if key in _KNOWN:
        ranges = _KNOWN[key]
    else:
        ranges = _KNOWN[key] = _ranges_of(*key)
    if ranges is None:
        return False
    found = lengths()
    for borders in ranges:
        if all(borders[2 * at] <= length <= borders[2 * at + 1] for at, length in enumerate(found)):
            return False
    return True


# Tensors that hold their own values, and no part of a transform or a trace.
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, type(None)})
# Looked up once: this is asked in every call.
_is_compiling = torch.compiler.is_compiling
_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._functorch.peek_interpreter_stack
_forward_ad = torch.autograd.forward_ad


def is_eager() -> bool:
    """Whether calls with `PLAIN` tensors compute at once: not in torch.compile or another mode, torch.func, or forward-mode autograd."""
    return not _is_compiling() and _modes() == 0 and _transforms() is None and _forward_ad._current_level < 0


def is_traced() -> bool:
    """Whether torch.compile traces a call that is no part of a transform of torch.func."""
    # While it traces, `is None` is never true of what it wraps.
    return torch.compiler.is_dynamo_compiling() and not isinstance(_transforms(), torch._C._functorch.CInterpreter)
