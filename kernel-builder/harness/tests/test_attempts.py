"""Which functions are held against templates at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from attempts import library_operator
from subject import Subject

if TYPE_CHECKING:
    from pathlib import Path

FILE = """import torch


class Projected(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Unshown(Projected):
    pass


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * self.weight


def product(x):
    return x @ x.T


def example_inputs_Projected():
    return (torch.randn(3, 8),)


def example_inputs_Scaled():
    return (torch.randn(3, 8),)


def example_inputs_product():
    return (torch.randn(3, 8),)
"""


@pytest.mark.parametrize(
    ("name", "operator"), [("Projected", "addmm"), ("Unshown", None), ("Scaled", None), ("product", None)]
)
def test_a_module_that_calls_a_product_on_its_example_is_no_template(
    tmp_path: Path, name: str, operator: str | None
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    assert library_operator(torch, Subject(str(path), name)) == operator
