"""What is exported of functions for their translation, and why others are not."""
# pyright: basic

from __future__ import annotations

from pathlib import Path

import pytest
import torch

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


def example_inputs_added():
    return torch.randn(3, 5), torch.randn(3, 5)


def added(x, y):
    return x + y


def example_inputs_scaled_places():
    return torch.randn(3, 5), torch.randint(0, 3, (3, 5))


def scaled_places(x, places):
    return torch.exp(x) * places, places + 1


def example_inputs_compared():
    return torch.randn(3, 5), torch.randn(3, 5)


def compared(x, y):
    return x > y


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


def test_a_sum_has_one_gradient_and_keeps_no_argument(said):
    found = said("added")["translation"]["gradient"]
    assert found["inputs"] == ["x", "y"]
    assert found["same"] == {"y": "x"}
    assert [one["name"] for one in found["graph"]["inputs"]] == ["grad_out"]
    assert found["graph"]["results"] == ["grad_x"]


def test_a_gradient_has_lines_and_a_reference(said):
    found = said("scaled_places")["translation"]["gradient"]
    assert [one["name"] for one in found["graph"]["inputs"]] == ["grad_out_0", "x", "places"]
    assert found["graph"]["nodes"][-1]["line"] == 30
    space: dict = {}
    exec(FILE + found["reference"]["text"], space)
    x, places = torch.randn(3, 5, dtype=torch.float64), torch.randint(0, 3, (3, 5))
    one = torch.ones_like(x)
    assert torch.equal(space["scaled_places_backward"](one, x, places), torch.exp(x) * places)


def test_a_function_without_a_gradient_is_translated(said):
    found = said("compared")["translation"]
    assert found["gradient"] is None
    assert "no result depends on a floating-point argument" in found["ungraded"]


@pytest.mark.parametrize(
    ("name", "what", "line"),
    [
        ("branching", "it decides by the values of tensors", 43),
        ("overwriting", "it changes `x`", None),
        ("viewed", "its result is a view of its argument `x`", None),
    ],
)
def test_a_refusal_says_why_and_where(said, name, what, line):
    report = said(name)
    assert report["translation"] is None
    assert what in report["untranslated"]["what"]
    assert report["untranslated"]["line"] == line
