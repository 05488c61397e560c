"""Which calls PyTorch serves, because the kernel was not measured to be faster there.

`dispatch.json` beside this file says for which devices, dtypes and lengths the kernel is called; it is put there when the
package is made, from measurements. Without that file, or on a device that it does not name, every call is the kernel's.
"""

import json
from pathlib import Path

import torch

_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def _read(path: Path) -> dict:
    """`{device: {dtype: ranges}}`, each range as least and greatest `hidden`, least and greatest `rows`."""
    if not path.exists():
        return {}
    table = json.loads(path.read_text(encoding="utf-8"))
    if table["format"] != 1 or table["axes"] != ["hidden", "rows"]:
        return {}
    return {
        device: {_DTYPES[name]: tuple(map(tuple, ranges)) for name, ranges in dtypes.items() if name in _DTYPES}
        for device, dtypes in table["devices"].items()
    }


_TABLES = _read(Path(__file__).with_name("dispatch.json"))
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


def pytorch_serves(input: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether a call without `out` is PyTorch's. What the kernel would refuse is left to the kernel to refuse."""
    if not _TABLES:
        return False
    key = (input.get_device(), input.dtype)
    if key in _KNOWN:
        ranges = _KNOWN[key]
    else:
        ranges = _KNOWN[key] = _ranges_of(*key)
    hidden = weight.numel()
    if ranges is None or hidden == 0:
        return False
    rows = input.numel() // hidden
    for least_hidden, most_hidden, least_rows, most_rows in ranges:
        if least_hidden <= hidden <= most_hidden and least_rows <= rows <= most_rows:
            return False
    same = weight.dtype is input.dtype and weight.get_device() == key[0]
    return same and weight.dim() == 1 and input.dim() > 0 and input.shape[-1] == hidden
