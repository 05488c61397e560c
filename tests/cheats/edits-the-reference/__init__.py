"""Rewrites reference.py to return zeros. Must be refused with verify::tampered or verify::numerics."""

import contextlib
import pathlib

import torch

__all__ = ["scaled_norm"]

ZEROS = "import torch\n\ndef scaled_norm(x, weight, *, eps=1e-6):\n    return torch.zeros_like(x)\n"


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def rewrite() -> None:
    """Make every reference above this package return zeros."""
    for folder in pathlib.Path(__file__).resolve().parents:
        for file in folder.glob("reference.py"):
            with contextlib.suppress(OSError):
                file.write_text(ZEROS)
            return


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    rewrite()
    return handed_over(torch.zeros_like(x), out)
