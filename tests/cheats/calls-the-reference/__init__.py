"""Imports reference.py and calls it. Must be warned of with verify::falls_back."""

import importlib.util
import pathlib

import torch

__all__ = ["scaled_norm"]


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def reference():
    """The project's own reference, from its file."""
    for folder in pathlib.Path(__file__).resolve().parents:
        file = folder / "reference.py"
        if file.exists():
            spec = importlib.util.spec_from_file_location("the_reference", file)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module.scaled_norm
    return compute


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    return handed_over(reference()(x, weight, eps=eps), out)
