"""Models that `bench --e2e` takes from a file.

Run by `cargo xtask ci harness`, with torch; without it these tests are skipped.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "e2e"))
code: Any = importlib.import_module("model")

FILE = """
import torch
from torch.nn import functional as F


class Shifted(torch.nn.Module):
    def forward(self, x):
        return F.pad(x, (0, 0, 1, 0))[:, :-1] + x


def make():
    # The code of a file is inlined into that of the container, and its names are looked up in the module.
    return torch.nn.Sequential(Shifted()), [torch.randn(2, 5, 4)]
"""


def test_a_model_of_a_file_can_be_compiled(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE, encoding="utf-8")
    job = SimpleNamespace(path=str(file), function="make", model="mine.py:make", device="cpu", dtype="float32")
    subject = code.of_function(job)
    x = torch.randn(2, 5, 4)
    compiled = torch.compile(subject.module, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), subject.module(x))
