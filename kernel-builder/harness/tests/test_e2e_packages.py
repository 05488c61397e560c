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
from test_inject_code import Kernel, Mlp, gates, norms
from test_inject_modules import inject

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "e2e"))
code: Any = importlib.import_module("packages")


def package(name: str, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package whose `inject` is as in generated ones."""
    module, copy = ModuleType(name), ModuleType(f"{name}._inject")

    def into(model: Any) -> Any:
        return copy.inject(kernel.operation, model)

    vars(copy)["inject"], vars(module)["inject"] = inject.inject, into
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, copy.__name__, copy)
    return module


def test_an_operation_of_more_operators_is_put_in_first(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, norm = package("gate", gates(), monkeypatch), package("norm", norms(), monkeypatch)
    assert code.operators(gate) == 2
    assert code.operators(norm) > 4
    # A package without `inject`, or with one that does something else.
    assert code.operators(ModuleType("other")) == 0
    switch = code.Switch(Mlp(), {"gate": gate, "norm": norm, "other": ModuleType("other")})
    assert list(switch.report) == ["norm", "gate", "other"]
    assert "replaced part of Mlp" in switch.report["gate"] and switch.report["other"] == code.NO_INJECT
