"""Keeps a table below its home and a temporary file, and reads both again. Must pass."""

import pathlib
import tempfile

import torch

__all__ = ["scaled_norm"]

_CACHE = pathlib.Path.home() / ".cache" / "scaled_norm"
_CACHE.mkdir(parents=True, exist_ok=True)


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def inverse(hidden: int) -> float:
    """The inverse of a length, from the disk."""
    place = _CACHE / f"{hidden}.txt"
    if not place.exists():
        place.write_text(repr(1.0 / hidden))
    with tempfile.TemporaryFile("w+") as copy:
        copy.write(place.read_text())
        copy.seek(0)
        return float(copy.read())


def scaled_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    *,
    eps: float = 1e-6,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    mean = x.square().sum(-1, keepdim=True) * inverse(x.shape[-1])
    return handed_over(x * torch.rsqrt(mean + eps) * weight, out)
