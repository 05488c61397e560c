"""The order in which `bench --e2e` puts packages into a model.

Run by `cargo xtask ci harness`, with torch; without it these tests are skipped.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "e2e"))
code: Any = importlib.import_module("packages")

NORM = """
import torch
__all__ = ["inject", "norm"]
def norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float = 1e-6, *, out: torch.Tensor) -> torch.Tensor: ...
def inject(model: torch.nn.Module): ...
"""
SUM = """
import torch
__all__ = ["add_norm"]
def add_norm(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...
"""


def package(source: str) -> ModuleType:
    module = ModuleType("package")
    exec(source, vars(module))
    return module


def test_an_operation_with_more_tensors_is_put_in_first() -> None:
    assert code.tensors(package(NORM)) == 3
    assert code.tensors(package(SUM)) == 5
    assert code.tensors(ModuleType("empty")) == 0
