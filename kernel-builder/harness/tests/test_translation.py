"""What is exported of functions for their translation, and why others are not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import bounds
from subject import Subject
from translation import translation

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradients import GradientReport
    from translation import Report, Translation

    # The report on a function of FILE.
    Reports = Callable[[str], Report]

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


def capped(x):
    return torch.minimum(x, torch.tensor(0.5))


def with_numbers(x):
    return x[:, :2] * torch.tensor([1.0, 2.0])


def example_inputs_products():
    return (torch.rand(3, 4000),)


def products(x):
    return torch.cumprod(x, dim=1)


def example_inputs_one_by_one():
    return (torch.rand(1200, 3),)


def one_by_one(x):
    total = x[0]
    for row in range(1, x.shape[0]):
        total = total + x[row]
    return total


def example_inputs_large():
    return torch.rand(5000, 1000), torch.randint(0, 1000, (5000,))


def large(x, places):
    if type(x) is torch.Tensor:  # with values
        SEEN.append(tuple(x.shape))
    return x.float().softmax(1).gather(1, places.unsqueeze(1)).to(x.dtype)


def example_inputs_only_long():
    return (torch.rand(5000, 1000),)


def only_long(x):
    if type(x) is torch.Tensor:  # with values
        SEEN.append(tuple(x.shape))
    return x.float().sigmoid().to(x.dtype) if x.shape[0] > 3000 else x * 2


def example_inputs_only_whole():
    return torch.rand(5000, 1000), torch.randint(4000, 5000, (3,))


def only_whole(x, places):
    if type(x) is torch.Tensor:  # with values
        SEEN.append(tuple(x.shape))
    return x.sigmoid()[places]


SEEN = []


def example_inputs_deviation():
    return torch.randn(3, 5), torch.rand(5), torch.ones(5)


def deviation(x, variance, weight):
    return x / torch.sqrt(variance + 1e-5) * weight


def example_inputs_shifted():
    return torch.randn(3, 5, 4), torch.randn(4)


def shifted(x, mix):
    return x + torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1] * mix
"""


@pytest.fixture
def reports(tmp_path: Path) -> Reports:
    path = tmp_path / "functions.py"
    path.write_text(FILE, encoding="utf-8")

    def report(name: str) -> Report:
        return translation(Subject(str(path), name), lambda _: None)

    return report


def translated(reports: Reports, name: str) -> Translation:
    found = reports(name)["translation"]
    assert found is not None
    return found


def graded(reports: Reports, name: str) -> GradientReport:
    found = translated(reports, name)["gradient"]
    assert found is not None
    return found


def test_gradients_of_padded_tensors_have_lengths_as_symbols(reports: Reports) -> None:
    graph = graded(reports, "shifted")["graph"]
    assert len(graph["symbols"]) == 3
    assert all(terms for one in graph["inputs"] for axis in one["tensor"]["shape"] for _, terms in axis)


def test_lengths_are_symbols_and_lines_are_quoted(reports: Reports) -> None:
    found = translated(reports, "halved")
    graph = found["graph"]
    assert [one["name"] for one in graph["inputs"]] == ["x", "weight"]
    assert [symbol["quotient"][1] for symbol in graph["symbols"].values() if symbol["quotient"]] == [2]
    assert graph["nodes"][-1]["line"] == 6
    assert graph["nodes"][-1]["text"] == "return torch.sigmoid(a) * b + eps"
    assert found["reference"] == {"function": "halved", "text": ""}


def test_a_function_that_casts_is_called_with_wider_dtypes(reports: Reports) -> None:
    found = translated(reports, "cast")
    assert found["reference"]["function"] == "cast_reference"
    assert "_Widened()" in found["reference"]["text"]
    assert found["guessed"] == []


def test_parameters_of_a_module_are_arguments(reports: Reports) -> None:
    found = translated(reports, "Scaled")
    assert [one["name"] for one in found["graph"]["inputs"]] == ["x", "weight"]
    assert "functional_call" in found["reference"]["text"]


def test_a_tensor_under_a_square_root_is_not_negative(reports: Reports) -> None:
    found = reports("deviation")["translation"]
    assert found is not None and found["gradient"] is not None
    for graph in (found["graph"], found["gradient"]["graph"]):
        assert [one["name"] for one in graph["inputs"] if one["non_negative"]] == ["variance"]


def test_a_sum_has_one_gradient_and_keeps_no_argument(reports: Reports) -> None:
    found = graded(reports, "added")
    assert found["inputs"] == ["x", "y"]
    assert found["same"] == {"y": "x"}
    assert [one["name"] for one in found["graph"]["inputs"]] == ["grad_out"]
    assert found["graph"]["results"] == ["grad_x"]


def test_a_gradient_has_lines_and_a_reference(reports: Reports) -> None:
    found = graded(reports, "scaled_places")
    assert [one["name"] for one in found["graph"]["inputs"]] == ["grad_out_0", "x", "places"]
    assert found["graph"]["nodes"][-1]["line"] == 30
    space: dict[str, Any] = {}
    exec(FILE + found["reference"]["text"], space)
    x, places = torch.randn(3, 5, dtype=torch.float64), torch.randint(0, 3, (3, 5))
    one = torch.ones_like(x)
    assert torch.equal(space["scaled_places_backward"](one, x, places), torch.exp(x) * places)


def test_a_function_without_a_gradient_is_translated(reports: Reports) -> None:
    found = translated(reports, "compared")
    assert found["gradient"] is None
    assert "no result depends on a floating-point argument" in str(found["ungraded"])


@pytest.mark.parametrize(
    ("name", "what", "line"),
    [
        ("branching", "it decides by the values of tensors", 43),
        ("overwriting", "it changes `x`", None),
        ("viewed", "its result is a view of its argument `x`", None),
    ],
)
def test_a_refusal_says_why_and_where(reports: Reports, name: str, what: str, line: int | None) -> None:
    report = reports(name)
    assert report["translation"] is None
    problem = report["untranslated"]
    assert problem is not None
    assert what in problem["what"]
    assert problem["line"] == line


def test_a_tensor_of_one_number_is_that_number(reports: Reports) -> None:
    nodes = translated(reports, "capped")["graph"]["nodes"]
    assert (nodes[0]["op"], nodes[0]["arguments"]) == ("aten.scalar_tensor.default", [0.5])
    assert nodes[0]["keywords"] == {"dtype": "float32"}


def test_a_tensor_of_several_numbers_is_refused(reports: Reports) -> None:
    untranslated = reports("with_numbers")["untranslated"]
    assert untranslated is not None
    assert "pass that tensor as an argument" in untranslated["what"]


def test_the_gradient_of_a_running_product_does_not_grow_with_the_axis(reports: Reports) -> None:
    graph = graded(reports, "products")["graph"]
    assert len(graph["nodes"]) < 100
    assert len(graph["symbols"]) == 2


def test_a_loop_over_an_axis_is_refused_before_it_is_exported(reports: Reports) -> None:
    untranslated = reports("one_by_one")["untranslated"]
    assert untranslated is not None
    assert "it calls more than 2000 operators" in untranslated["what"]


def test_the_gradient_of_a_loop_is_bounded(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_OPERATORS", 20)
    found = translated(reports, "products")
    assert found["gradient"] is None
    assert "PyTorch computes it with more than" in str(found["ungraded"])


def seen(path: Path, name: str) -> tuple[Translation, set[tuple[int, ...]]]:
    """A translation, and the lengths with which the function ran on values."""
    subject = Subject(str(path), name)
    found = translation(subject, lambda _: None)["translation"]
    assert found is not None
    return found, set(subject.module.SEEN)


def test_a_large_example_is_cut_along_its_first_axis(tmp_path: Path) -> None:
    path = tmp_path / "functions.py"
    path.write_text(FILE, encoding="utf-8")
    found, lengths = seen(path, "large")
    assert (5000, 1000) not in lengths
    assert {(1250, 1000), (0, 0), (1, 1)} <= lengths
    assert "_Widened()" in found["reference"]["text"]


def test_a_large_example_takes_its_own_way_through_the_code(tmp_path: Path) -> None:
    path = tmp_path / "functions.py"
    path.write_text(FILE, encoding="utf-8")
    found, lengths = seen(path, "only_long")
    assert {(5000, 250), (1, 1)} <= lengths
    assert (5000, 1000) not in lengths
    assert "_Widened()" in found["reference"]["text"]


def test_a_large_example_stays_whole_if_it_does_not_work_shorter(tmp_path: Path) -> None:
    path = tmp_path / "functions.py"
    path.write_text(FILE, encoding="utf-8")
    _, lengths = seen(path, "only_whole")
    assert (5000, 1000) in lengths
