"""What is exported of functions for their translation, and why others are not."""
# pyright: basic

from __future__ import annotations

from pathlib import Path

import pytest

from subject import Subject
from translation import translation

FILE = """import torch


def halved(x, weight, eps: float = 1e-6):
    a, b = x.chunk(2, dim=-1)
    return torch.sigmoid(a) * b + eps


def example_inputs_cast():
    return (torch.randn(3, 5),)


def cast(x):
    return (x.float() / 3).to(x.dtype)


def branching(x):
    y = x * 2
    if y.sum() > 0:
        return y
    return x + 1


def overwriting(x):
    x.add_(1)
    return x * 2


def viewed(x):
    return x.t()


class Scaled(torch.nn.Module):
    def __init__(self, length: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(length))

    def forward(self, x):
        return x * self.weight
"""


@pytest.fixture
def said(tmp_path: Path):
    path = tmp_path / "functions.py"
    path.write_text(FILE, encoding="utf-8")
    return lambda name: translation(Subject(str(path), name))


def test_lengths_are_symbols_and_lines_are_quoted(said):
    found = said("halved")["translation"]
    graph = found["graph"]
    assert [one["name"] for one in graph["inputs"]] == ["x", "weight"]
    halves = [symbol for symbol in graph["symbols"].values() if symbol["quotient"]]
    assert [one["quotient"][1] for one in halves] == [2]
    assert graph["nodes"][-1]["line"] == 6
    assert graph["nodes"][-1]["text"] == "return torch.sigmoid(a) * b + eps"
    assert found["reference"] == {"function": "halved", "text": ""}


def test_a_function_that_casts_is_called_with_wider_dtypes(said):
    found = said("cast")["translation"]
    assert found["reference"]["function"] == "cast_reference"
    assert "_Widened()" in found["reference"]["text"]
    assert found["guessed"] == []


def test_parameters_of_a_module_are_arguments(said):
    found = said("Scaled")["translation"]
    assert [one["name"] for one in found["graph"]["inputs"]] == ["x", "weight"]
    assert "functional_call" in found["reference"]["text"]


@pytest.mark.parametrize(
    ("name", "what", "line"),
    [
        ("branching", "it decides by the values of tensors", 19),
        ("overwriting", "it changes `x`", None),
        ("viewed", "its result is a view of its argument `x`", None),
    ],
)
def test_a_refusal_says_why_and_where(said, name, what, line):
    report = said(name)
    assert report["translation"] is None
    assert what in report["untranslated"]["what"]
    assert report["untranslated"]["line"] == line
