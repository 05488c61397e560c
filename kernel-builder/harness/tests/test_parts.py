"""The parts of a model's code that `profile` finds.

Run by `cargo xtask ci harness`, with torch; without it these tests are skipped.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from test_inject_blocks import Attention as Branching
from test_inject_blocks import inputs as branching_inputs
from test_inject_blocks import norm_rotary
from test_inject_code import Attention, Layer, angles
from test_inject_objects import Processed, apply_pairs

torch = pytest.importorskip("torch")
nn = torch.nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "e2e"))
sys.path.insert(0, str(ROOT / "resources/host"))
code: Any = importlib.import_module("parts")
files: Any = importlib.import_module("part_file")


def found(model: Any, *arguments: Any) -> dict[str, Any]:
    """The parts that a call of the model runs; its results stay the same."""
    with torch.no_grad():
        before = model(*arguments)
        parts = code.Parts(model)
        with parts:
            assert torch.equal(model(*arguments), before)
            parts.counts = False
            assert torch.equal(model(*arguments), before)
        assert torch.equal(model(*arguments), before)
    assert not any("forward" in vars(one) for one in model.modules())
    return {f"{part.name} {number}": part for number, part in enumerate(parts.found) if part.calls}


def test_parts_stand_between_matrix_products() -> None:
    parts = found(Layer(), torch.randn(1, 5, 16), angles())
    by_name = {name.split()[0]: part for name, part in parts.items()}
    assert {"mlp", "norm", "layer", "apply_rotary"} <= set(by_name)
    # The norm within the sum is no part of its own.
    assert by_name["norm"].calls == 1 and by_name["norm"].classes == {"Norm": 2}
    mlp = by_name["mlp"]
    # silu reads and writes 5 x 24 floats, and the product reads two tensors and writes one.
    assert (mlp.moved, mlp.least) == (5 * 24 * 4 * 5, 5 * 24 * 4 * 3)
    assert mlp.tensors == [([1, 5, 24], torch.float32)] * 2


def run(source: str, name: str) -> tuple[Any, Any]:
    """The results of the function of a file with its example, and the example."""
    names: dict[str, Any] = {}
    exec(source, names)
    tensors = names["example_inputs"]()
    return names[name](*tensors), tensors


def test_a_file_has_a_part_as_a_function_with_an_example() -> None:
    parts = found(Layer(), torch.randn(1, 5, 16), angles())
    mlp = next(part for name, part in parts.items() if name.startswith("mlp"))
    source = files.text(mlp, "mlp", "It is a test.")
    assert source is not None and "def mlp(gate, up):" in source and "= None" not in source
    result, (gate, up) = run(source, "mlp")
    # One sequence is none that a translation takes for a constant.
    assert list(gate.shape) == [2, 5, 24]
    torch.testing.assert_close(result, nn.functional.silu(gate) * up)


def test_heads_are_taken_in_the_order_of_memory() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Attention()

        def forward(self, x: Any, turned: Any) -> Any:
            return self.attention(x, angles=turned)[0]

    parts = found(Model(), torch.randn(2, 5, 16), angles(2))
    rotary = next(part for name, part in parts.items() if name.startswith("apply_rotary"))
    assert rotary.swapped
    source = files.text(rotary, "rotary", "It is a test.")
    assert source is not None
    (q, k), tensors = run(source, "rotary")
    assert [list(one.shape) for one in tensors] == [[2, 5, 4, 4], [2, 5, 2, 4], [2, 5, 4], [2, 5, 4]]
    assert (q.shape, k.shape) == (tensors[0].shape, tensors[1].shape)


def test_numbers_are_no_tensors_of_a_kernel() -> None:
    class Counts(nn.Module):
        def forward(self, x: Any, places: Any) -> Any:
            return x * places.float() + 1.0

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.counts, self.linear = Counts(), nn.Linear(4, 4)

        def forward(self, x: Any, places: Any) -> Any:
            return self.linear(self.counts(x, places))

    (part,) = found(Model(), torch.randn(3, 4), torch.arange(4)).values()
    assert files.text(part, "counts", "It is a test.") is None


def test_a_function_in_an_object_that_a_module_calls_is_a_part() -> None:
    x, table = torch.randn(1, 5, 16, dtype=torch.bfloat16), (torch.randn(5, 8), torch.randn(5, 8))
    (part,) = found(Processed().bfloat16(), x, table).values()
    assert (part.name, part.classes, part.calls) == ("apply_pairs", {"Processor": 1}, 1)
    source = files.text(part, "apply_pairs", "It is a test.")
    assert source is not None and "def apply_pairs(x, table_0, table_1):" in source
    result, (x, cos, sin) = run(source, "apply_pairs")
    # Tensors of several dtypes keep their own.
    assert (list(x.shape), x.dtype, cos.dtype) == ([2, 5, 2, 8], torch.bfloat16, torch.float32)
    assert torch.equal(result, apply_pairs(x, (cos, sin), sequence_dim=1))


def test_a_part_that_asks_for_a_length_does_not_take_the_tensor() -> None:
    class Modulated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.linear = nn.Parameter(torch.randn(3, 8)), nn.Linear(8, 8)

        def forward(self, x: Any, given: Any) -> Any:
            parts = given.reshape(given.size(0), self.table.shape[0], self.table.size(1))
            return self.linear(x * parts[:, 1] + parts[:, 2])

    (part,) = found(Modulated(), torch.randn(4, 8), torch.randn(4, 24)).values()
    source = files.text(part, "modulated", "It is a test.")
    assert source is not None and "def modulated(x, given):" in source and "reshape(size, 3, 8)" in source


class Modulated(nn.Module):
    """A block of a diffusion transformer: factors for a whole sequence scale a norm, and what is added."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner, self.outer = nn.Parameter(torch.randn(4, 8)), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Any, given: Any) -> Any:
        factors = self.table[None] + given.reshape(x.size(0), 4, -1)
        shift, scale, first, second = factors.unsqueeze(2).unbind(1)
        x = x + first * self.inner(nn.functional.rms_norm(x, (8,)) * (1 + scale) + shift)
        return x + self.outer(x) * second


def test_steps_that_compute_small_tensors_are_no_part() -> None:
    model, arguments = Modulated(), (torch.randn(2, 200, 8), torch.randn(2, 32))
    with torch.no_grad():
        before = model(*arguments)
        first = code.Parts(model)
        with first:
            model(*arguments)
        second = code.Parts(model, first.left)
        with second:
            assert torch.equal(model(*arguments), before)
    norm, added, last = (part for part in second.found if part.calls)
    assert norm.tensors == [([2, 200, 8], torch.float32), *[([2, 1, 8], torch.float32)] * 2]
    source = files.text(norm, "norm", "It is a test.")
    # A step that only one part needs stays in that part.
    assert source is not None and "1 + " in source and "reshape" not in source
    result, (x, *given) = run(source, "norm")
    shift, scale = given if "1 + unbind_1" in source else given[::-1]
    torch.testing.assert_close(result, nn.functional.rms_norm(x, (8,)) * (1 + scale) + shift)
    # Both sums are the same operation, though the order of the tensors differs.
    assert files.alike(added) == files.alike(last) != files.alike(norm)
    assert files.described([added, last]) == "2 of Modulated"


def test_norms_of_heads_and_their_embedding_are_a_part_of_code_with_branches() -> None:
    model, (x, tables) = Branching(), branching_inputs()
    with torch.no_grad():
        before = model(x, tables)
        first = code.Parts(model)
        with first:
            assert torch.equal(model(x, tables), before)
        parts = code.Parts(model, first.left)
        with parts:
            assert torch.equal(model(x, tables), before)
    (part,) = [one for one in parts.found if one.calls]
    assert (part.name, part.classes, part.calls) == ("attention", {"Attention": 1}, 1)
    # The shape of the heads is no tensor: the views that take it stay in the code.
    source = files.text(part, "attention", "It is a test.")
    assert source is not None
    assert "def attention(q, q_norm_weight, k, k_norm_weight, tables_0, tables_1):" in source
    (q, k), tensors = run(source, "attention")
    expected = norm_rotary(*(tensors[place] for place in (0, 2, 4, 5, 1, 3)))
    for found_here, one in zip((q, k), expected, strict=True):
        # As it lies in memory.
        torch.testing.assert_close(found_here, one.transpose(1, 2))


def test_a_view_that_others_use_as_well_is_no_result() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, x: Any, given: Any) -> Any:
            shift, scale, gate = self.inner(given).chunk(3, dim=-1)
            x = nn.functional.layer_norm(x, (8,)) * (1 + scale[:, None]) + shift[:, None]
            return self.outer(x) * gate[:, None]

    parts = found(Shifted(), torch.randn(2, 5, 8), torch.randn(2, 8)).values()
    sources = [files.text(part, "shifted", "It is a test.") or "" for part in parts]
    assert [len(part.results) for part in parts] == [1, 1, 1]
    assert not any("chunk(" in source for source in sources)
    assert sum("1 + " in source for source in sources) == 1


def test_an_argument_may_have_the_name_of_a_view() -> None:
    class Timed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Any, t: Any) -> Any:
            return self.linear(torch.sigmoid(x) * t)

    (part,) = found(Timed(), torch.randn(3, 8), torch.randn(3, 8)).values()
    source = files.text(part, "timed", "It is a test.")
    assert source is not None and "def timed(x, t):" in source
