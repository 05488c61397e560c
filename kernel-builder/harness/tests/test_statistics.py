"""The figures that Python computes: errors, times, and what a timed call is given."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="no torch: these tests run with it in `cargo xtask ci harness`")

from conftest import tensor  # noqa: E402

from calls import FAR, alike, deviation, lengths_of, placed  # noqa: E402
from cupti import busy  # noqa: E402
from host import Station, rounds  # noqa: E402
from operands import Case, mix  # noqa: E402
from protocol import Dtype  # noqa: E402
from protocol_bench import BlockRequest, TimedCase, Tolerance  # noqa: E402
from protocol_trace import Axis, Form, Operation  # noqa: E402
from referee import Bytes, times, worst_excess  # noqa: E402

TOLERANCE = Tolerance(accumulate="f32", roundings=1, own_errors=False)


def case(dtype: Dtype = "f32", **more: Any) -> Case:
    """Twice an input."""
    inputs, outputs = [tensor("x", [64], dtype)], [tensor("y", [64], dtype)]
    plain = TimedCase(id="case", inputs=inputs, outputs=outputs, scalars={}, accumulated=1)
    return Case(torch, "cpu", replace(plain, **more))


def excess(got: Any, exact: Any, dtype: Dtype = "f32") -> float:
    """The error of an output in units of what its arithmetic explains."""
    return worst_excess(torch, case(dtype), TOLERANCE, exact, got)


def test_an_error_counts_less_where_pytorch_itself_is_off():
    exact = torch.linspace(1, 2, 64, dtype=torch.float64)
    got, own = exact.float() * 1.001, exact.float() * 1.0005
    assert excess(got, exact) > 100
    assert worst_excess(torch, case(), TOLERANCE, exact, got, own) < 1
    # PyTorch may be exact by chance where the package is not; much further off it is wrong.
    own = exact.float()
    own[0] *= 1.001
    assert worst_excess(torch, case(), TOLERANCE, exact, got, own) < 1
    assert worst_excess(torch, case(), TOLERANCE, exact, exact.float() * 1.01, own) > 1


def test_an_error_is_counted_in_roundings_of_the_output():
    exact = torch.linspace(1, 2, 64, dtype=torch.float64)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert excess(exact.to(dtype), exact) <= 0.5
        assert excess((exact * (1 + 64 * torch.finfo(dtype).eps)).to(dtype), exact) > 5


def test_what_has_no_number_is_infinitely_wrong():
    exact = torch.ones(4, dtype=torch.float64)
    assert excess(torch.ones(5), exact) == math.inf
    assert excess(torch.tensor([1.0, math.nan, 1.0, 1.0]), exact) == math.inf
    assert excess(torch.full((4,), math.nan), exact * math.nan) == 0.0
    assert times(math.inf) == "not finite or of another shape" and times(2.0) == "2 times too far off"


def test_integers_are_right_or_wrong():
    exact = torch.arange(4)
    assert (excess(torch.arange(4), exact), excess(torch.arange(4) + 1, exact)) == (0.0, math.inf)


def test_what_saturates_in_eight_bits_is_not_wrong():
    exact = torch.tensor([1e4, -1e4, 1.0], dtype=torch.float64)
    saturated = torch.tensor([448.0, -448.0, 1.0]).to(torch.float8_e4m3fn)
    assert excess(saturated, exact, "f8e4m3") <= 1.0
    assert excess(torch.tensor([-448.0, -448.0, 1.0]).to(torch.float8_e4m3fn), exact, "f8e4m3") > 1.0


@pytest.mark.parametrize(
    ("intervals", "seconds"),
    [([], 0.0), ([(0.0, 1.0), (2.0, 3.0)], 2.0), ([(0.0, 2.0), (1.0, 3.0)], 3.0), ([(0.0, 9.0), (1.0, 2.0)], 9.0)],
)
def test_overlapping_work_of_a_gpu_is_counted_once(intervals: Any, seconds: float):
    assert busy(intervals) == seconds


def test_contents_follow_from_seed_and_number_and_an_edit_changes_one_element():
    timed = case()
    timed.make_pools(11)
    ((one,), (again,), (other,)) = (timed.contents(5, number, []) for number in (1, 1, 2))
    assert torch.equal(one, again) and not torch.equal(one, other)
    (edited,) = timed.contents(5, 1, [9])
    assert int((edited != one).sum()) == 1 and float((edited - one).abs().max()) >= 3
    assert mix(1, 2) == mix(1, 2) != mix(2, 1) and 0 <= mix(7) < 2**63


def test_a_block_calls_its_sets_in_turn_and_keeps_their_outputs():
    timed = case()
    timed.make_pools(11)
    station = Station(torch, timed, 11)
    seen: list[Any] = []

    def double(inputs: Any) -> Any:
        seen.append(inputs[0].clone())
        return inputs[0] * 2

    station.enlist("kernel", double)
    seen.clear()
    number = len(station.sets) + 2
    edits = [(len(station.sets), 77), (len(station.sets) + 1, 78)]
    station.ready(
        BlockRequest(contender="kernel", regime="host", calls=number, first=0, seed=13, edits=edits, aim="sample")
    )
    device, inside, kept = station.go()
    assert device == inside > 0 and kept is None
    arguments, (output,) = station.kept(number - 1)
    assert torch.equal(output, arguments[0] * 2)
    # The first two sets come round again with one element changed.
    assert len(seen) >= number
    assert int((arguments[0] != timed.contents(13, 1, [])[0]).sum()) == 1
    assert rounds(3, 8, []) == ([0, 8], {})


def test_tensors_of_a_file_are_read_in_order_and_a_short_file_is_an_error(tmp_path: Any):
    path = tmp_path / "call.bin"
    path.write_bytes(torch.arange(4, dtype=torch.int32).numpy().tobytes() + b"\x01\x00")
    data = Bytes(torch, str(path), "cpu")
    assert data.next([2, 2], torch.int32).tolist() == [[0, 1], [2, 3]]
    assert data.next([0], torch.float32).numel() == 0
    assert data.next([2], torch.bool).tolist() == [True, False]
    with pytest.raises(ValueError, match="ends early"):
        data.next([1], torch.float32)


def test_a_file_of_empty_tensors_is_read(tmp_path: Any):
    path = tmp_path / "call.bin"
    path.write_bytes(b"")
    assert Bytes(torch, str(path), "cpu").next([0, 3], torch.float32).shape == (0, 3)


def test_a_deviation_is_in_parts_of_the_largest_of_the_row():
    wanted = torch.tensor([[1.0, 100.0], [1.0, 2.0]], dtype=torch.float64)
    assert deviation(torch, wanted, wanted) == 0.0
    assert deviation(torch, wanted + torch.tensor([[1.0, 0.0], [0.0, 0.0]]), wanted) == pytest.approx(0.01)
    assert deviation(torch, wanted[:1], wanted) == deviation(torch, wanted * math.nan, wanted) == FAR
    assert alike(torch, torch.tensor([math.nan, math.inf]), torch.tensor([math.nan, math.inf]))
    assert placed(torch, [wanted * 2, wanted], [wanted, wanted * 2]) == [1, 0]
    assert placed(torch, [wanted[0]], [wanted]) is None


def test_lengths_are_multiples_of_what_the_operation_and_the_form_ask_for():
    axes = [
        Axis(name="rows", fixed=None, multiple_of=1, min=None),
        Axis(name="hidden", fixed=None, multiple_of=1, min=None),
        Axis(name="two", fixed=2, multiple_of=1, min=None),
        Axis(name="wide", fixed=None, multiple_of=1, min=64),
    ]
    op = Operation(
        axes=axes, inputs=[], scalars=[], outputs=[], overwrites={}, gradients=[], constraints=["hidden % groups == 0"]
    )
    form = Form(arguments=[], results=None, scalars={}, without=[], given={}, multiples={"rows": 2})
    found = lengths_of(op, 0, {}, {"groups": 3}, form)
    assert found["rows"] % 2 == 0 and found["hidden"] % 3 == 0 and found["two"] == 2 and found["wide"] >= 64
    assert lengths_of(op, 0, {"hidden": 40}, {"groups": 3}, form)["hidden"] == 40
    assert lengths_of(op, 0, {"wide": ("times", 7)}, {}, form)["wide"] % 7 == 0
