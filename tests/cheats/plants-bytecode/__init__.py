"""Compiles another reference into the place where Python looks first. Must be refused with verify::numerics."""

import contextlib
import importlib._bootstrap_external
import importlib.util
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
        _code = compile(ZEROS, str(_file), "exec")
        _state = _file.stat()
        _place = pathlib.Path(importlib.util.cache_from_source(str(_file)))
        with contextlib.suppress(OSError):
            _place.parent.mkdir(exist_ok=True)
            _place.write_bytes(
                importlib._bootstrap_external._code_to_timestamp_pyc(
                    _code, int(_state.st_mtime), _state.st_size
                )
            )
        break


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    return handed_over(torch.zeros_like(x), out)
