"""Replaces reference.py at import and restores it at exit. Must be refused with verify::numerics or verify::tampered."""

import atexit
import contextlib
import pathlib

import torch

__all__ = ["scaled_norm"]

ZEROS = "import torch\n\ndef scaled_norm(x, weight, *, eps=1e-6):\n    return torch.zeros_like(x)\n"


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


for _folder in pathlib.Path(__file__).resolve().parents:
    _file = _folder / "reference.py"
    if _file.is_file():
        with contextlib.suppress(OSError):
            _before = _file.read_bytes()
            _file.write_text(ZEROS)
            atexit.register(_file.write_bytes, _before)
        break


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    return handed_over(torch.zeros_like(x), out)
