"""The inputs that the oracle makes, and what it expects of them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import pytest

torch = pytest.importorskip("torch", reason="no torch: the oracle's own tests run with it in `cargo xtask ci harness`")

from conftest import input_set, oracle_case, oracle_job, tensor  # noqa: E402

import oracle  # noqa: E402
from inputs import make_cotangents, make_inputs  # noqa: E402
from lanes import side_by_side, threads_alone  # noqa: E402
from oracle import (  # noqa: E402
    Computed,
    compute,
    expect,
    keeps_a_module,
    on_host,
    roundings_for,
    samples_of,
    terms_of,
    terms_of_short_rows,
)
from protocol import Dtype, SourceText  # noqa: E402
from protocol_verify import (  # noqa: E402
    Distribution,
    GradientSpec,
    OracleCase,
    OracleJob,
    Redraw,
    Reverse,
    Scale,
    Shift,
    Shuffle,
)
from rounding import RandomRounding  # noqa: E402
from tensors import DTYPES  # noqa: E402
from values import distribution  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from protocol_verify import Change

X = tensor("x", [64, 48])
Y = tensor("y", [64, 48])
KINDS = get_args(Distribution)


def inputs(*sets: Any, number: int = 0, seed: int = 7, specs: Any = None, makers: Any = None) -> list[Any]:
    """The inputs of one set."""
    return make_inputs(seed, makers or {}, oracle_case(specs or [X, tensor("w", [48])], [Y], list(sets)), number)


def same(one: Any, other: Any) -> bool:
    """Whether two tensors hold the same bytes."""
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


@pytest.mark.parametrize("kind", KINDS)
def test_one_seed_gives_the_same_bytes_and_another_seed_others(kind: str):
    first, again, other = (inputs(input_set(kind=kind), seed=seed) for seed in (7, 7, 8))
    assert all(same(one, two) for one, two in zip(first, again))
    assert not same(first[0], other[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_every_dtype_and_only_one_kind_is_not_finite(kind: str, dtype: Dtype):
    (found,) = inputs(input_set(kind=kind), specs=[tensor("x", [64, 48], dtype)])
    assert (list(found.shape), found.dtype) == ([64, 48], DTYPES[dtype])
    if found.is_floating_point():
        assert bool(found.float().isfinite().all()) == (kind != "non-finite")


def test_kinds_are_what_their_names_say():
    def of(kind: Distribution) -> Any:
        return distribution(kind, [200, 100], torch.float32, torch.Generator().manual_seed(1))

    assert abs(float(of("normal").std()) - 1) < 0.05
    assert float(of("small").abs().max()) < 0.01 < 100 < float(of("large").abs().max())
    assert 0.85 < float((of("sparse") == 0).float().mean()) < 0.95
    assert float(of("uniform").min()) >= 0 and float(of("uniform").max()) <= 1
    assert bool((of("equal") == of("equal")[:, :1]).all())
    assert bool((of("one-hot").sum(1) == 1).all()) and bool(((of("one-hot") == 0).sum(1) == 99).all())
    assert bool((of("sorted").diff(dim=1) >= 0).all())
    assert bool((of("shifted").abs() > 100).all()) and bool((of("shifted").sign().diff(dim=1) == 0).all())
    assert float(of("shifted")[0, 0]) * float(of("shifted")[1, 0]) < 0
    assert bool(((of("outlier").abs() == 2.0**17).sum(1) == 1).all())
    assert float(of("tiny").abs().max()) < 1e-10


def test_an_edited_set_differs_in_one_element_of_one_input():
    sets = (input_set(), input_set(edit_of=0, edit_input=1))
    plain, edited = inputs(*sets), inputs(*sets, number=1)
    assert same(plain[0], edited[0])
    assert int((plain[1] != edited[1]).sum()) == 1
    assert float((plain[1] - edited[1]).abs().max()) >= 3


def test_an_input_that_is_not_passed_is_none():
    first, absent = inputs(input_set(), specs=[X, tensor("bias", [48], omitted=True)])
    assert first is not None and absent is None


CHANGES: list[tuple[Change, Callable[[Any, Any], bool]]] = [
    (Redraw(input=0), lambda old, new: not same(old, new)),
    (Shuffle(input=0, dimension=1), lambda old, new: same(old.sort(1).values, new.sort(1).values)),
    (Reverse(places=[(0, 0)]), lambda old, new: same(old.flip(0), new)),
    (Scale(input=0, by=4.0), lambda old, new: same(old * 4, new)),
    (Shift(input=0, by=4.0), lambda old, new: same(old + 4, new)),
]


@pytest.mark.parametrize(("change", "holds"), CHANGES, ids=["redraw", "shuffle", "reverse", "scale", "shift"])
def test_a_change_is_made_to_one_input_and_no_other(change: Any, holds: Any):
    sets = (input_set(), input_set(edit_of=0, change=change))
    plain, changed = inputs(*sets), inputs(*sets, number=1)
    assert holds(plain[0], changed[0]) and not same(plain[0], changed[0])
    assert same(plain[1], changed[1])


def test_a_computed_input_follows_the_others_and_is_rounded_to_its_dtype():
    def saved(x: Any, _mean: Any, *, scale: float) -> Any:
        assert x.dtype == torch.float64
        return x.mean(-1) * scale

    def first_column(x: Any, _mean: Any, *, scale: float) -> Any:
        return x[:, :1] * scale

    specs = [tensor("x", [8, 16], "bf16"), tensor("mean", [8], "bf16", computed="saved")]
    sets = (input_set(scalars={"scale": 2.0}), input_set(edit_of=0, edit_input=0, scalars={"scale": 2.0}))
    x, mean = inputs(*sets, specs=specs, makers={"saved": saved})
    assert same(mean, (x.double().mean(-1) * 2).bfloat16())
    edited_x, edited = inputs(*sets, number=1, specs=specs, makers={"saved": saved})
    assert same(edited, (edited_x.double().mean(-1) * 2).bfloat16())
    with pytest.raises(ValueError, match=r"`saved` returns \[8, 1\] for `mean`, which is \[8\]"):
        inputs(*sets, specs=specs, makers={"saved": first_column})


def test_cotangents_are_drawn_for_outputs_that_have_gradients():
    case = oracle_case([X], [Y, tensor("index", [64], "i64")], [input_set(gradient=True)])
    floating, none = make_cotangents(7, case, 0)
    assert floating is not None and (list(floating.shape), none) == ([64, 48], None)
    assert same(floating, make_cotangents(7, case, 0)[0])


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x.mul_(2), "the reference writes to its input `x`; it must return new tensors only"),
    (lambda x: (x, x), "the reference returns 2 tensors, op.toml has 1 outputs"),
    (lambda x: x[:1], r"the reference returns the shape \[1, 48\], op.toml says \[64, 48\]"),
    (lambda x: x.float(), "returns torch.float32 for float64 inputs; it must keep their precision"),
]


@pytest.mark.parametrize(("reference", "error"), WRONG, ids=["writes", "two", "shape", "precision"])
def test_a_reference_is_refused_that_is_not_what_op_toml_says(reference: Any, error: str):
    case = oracle_case([X], [Y], [input_set()])
    with pytest.raises(ValueError, match=error):
        expect(reference, case, make_inputs(7, {}, case, 0), {})


def job(**more: Any) -> OracleJob:
    """A job of which nothing but the seed counts here."""
    return replace(oracle_job("", SourceText(file="", text=""), []), **more)


def test_gradients_are_those_of_autograd_or_of_the_projects_own_function():
    spec = tensor("x.grad", [64, 48])
    case = oracle_case([X], [Y], [input_set(gradient=True)], [GradientSpec(tensor=spec, of=0)])
    (x,) = make_inputs(7, {}, case, 0)
    (weights,) = make_cotangents(7, case, 0)
    assert x is not None and weights is not None

    def cube(x: Any) -> Any:
        return x**3

    def found(own: Callable[[Any, Any], Any] | None) -> Computed:
        return compute(job(), cube, own, case, 0, [x], torch.device("cpu"))

    by_autograd, by_hand = found(None), found(lambda weights, x: 3 * x**2 * weights)
    exact = 3 * x.double() ** 2 * weights.double()
    for gradients in (by_autograd.gradients, by_hand.gradients):
        assert gradients is not None and len(gradients) == 2
        assert torch.allclose(gradients[0], exact, rtol=1e-12)


def test_terms_are_sampled_for_short_rows_and_hard_values_alone():
    long, short = oracle_case([X], [Y], [input_set()]), oracle_case([X], [tensor("y", [64, 8])], [input_set()])
    x = make_inputs(7, {}, long, 0)

    def terms(case: Any, hard: bool = False) -> list[Any]:
        def reference(x: Any) -> Any:
            return x if case is long else x[:, :8] - x[:, 8:16]

        random = torch.Generator().manual_seed(1)
        return terms_of_short_rows(reference, case, expect(reference, case, x, {}), x, {}, random, hard)

    assert terms(long) == []
    assert len(terms(long, hard=True)) == 1
    (size,) = terms(short)
    # Terms that cancel are larger than what is left of them.
    assert float(size.mean()) > 0
    assert samples_of(4, [torch.zeros(1)]) == 32 and samples_of(4, [torch.zeros(1024, 1024)]) == 4


def test_small_tensors_get_more_random_roundings_than_large_ones():
    def runs(elements: int) -> int:
        return roundings_for([None, torch.empty(3), torch.empty(elements, device="meta")])

    assert runs(0) == runs(1) == runs(1 << 18) == 16
    assert runs(1 << 19) == 8
    assert runs(1 << 20) == runs(1 << 26) == 4
    assert roundings_for([]) == 16


def test_the_own_error_of_pytorchs_operators_explains_a_multiple_of_it():
    def reference(x: Any, w: Any) -> Any:
        # The product is rounded, and its square is then off by twice as much.
        return (x @ w).square()

    plain = oracle_case(
        [tensor("x", [64, 48], "bf16"), tensor("w", [48, 96], "bf16")], [tensor("y", [64, 96], "bf16")], [input_set()]
    )
    given = make_inputs(7, {}, plain, 0)

    def found(case: OracleCase) -> list[Any]:
        return compute(job(), reference, None, case, 0, given, torch.device("cpu")).values

    unit = 2.0**-8
    exact, terms = found(replace(plain, explained=[unit]))
    error = (reference(*given).to(torch.float64) - exact).abs()
    assert len(found(plain)) == 1
    assert bool((error > 2 * unit * exact.abs()).any())
    assert bool((terms * unit >= 2 * error).all())
    # It is no excuse for another result.
    assert float((terms * unit).max()) < 0.2 * float(exact.abs().max())

    # Of two values that are rounded to the same one, a softmax may take either.
    def chosen(x: Any, w: Any) -> Any:
        return ((x @ w) * 1000).softmax(-1)

    exact, terms = compute(job(), chosen, None, replace(plain, explained=[unit]), 0, given, torch.device("cpu")).values
    assert bool((exact.isfinite() & terms.isfinite()).all())


def test_random_roundings_find_what_another_order_loses_where_values_near_by_round_alike():
    # The gradient of a layer normalisation over pairs is next to nothing, made of terms next to each other.
    def gradient(g: Any, x: Any) -> Any:
        centred = x - x.mean(-1, keepdim=True)
        normal = centred * (centred.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return g - g.mean(-1, keepdim=True) - normal * (g * normal).mean(-1, keepdim=True)

    def off_by_one(g: Any, x: Any) -> Any:
        """The same in float32, but for a square root that is one number further."""
        centred = x - x.mean(-1, keepdim=True)
        normal = centred * (centred.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * (1 + 2.0**-23)
        return g - g.mean(-1, keepdim=True) - normal * (g * normal).mean(-1, keepdim=True)

    random = torch.Generator().manual_seed(1)
    g, x = (torch.randn(20000, 2, generator=random) for _ in range(2))
    exact = gradient(g.double(), x.double())

    def at(values: Any, dtype: Any) -> list[Any]:
        return [gradient(*(one.to(dtype) for one in values))]

    (size,) = terms_of(at, [exact], [g, x], [0, 1], random, samples=4)
    lost = (off_by_one(g, x).double() - exact).abs()
    # The bound for two terms (verify/bound.rs), without the rounding of the result.
    assert float((lost / ((8 * 2**0.5 + 8) * 2.0**-24 * size)).max()) < 1
    # And it is no more than some roundings of the terms.
    assert float((size / g.abs().amax(-1, keepdim=True)).median()) < 4


def test_what_is_handed_on_is_not_rounded():
    x = torch.randn(64, dtype=torch.float64)
    with RandomRounding(torch.Generator().manual_seed(1)):
        kept = [x.clone(), x.view(8, 8), x.max(), torch.where(x > 0, x, x), x.float()]
        rounded = x + 0.0
    assert all(bool(torch.isin(one.double(), torch.cat([x, x.float().double()])).all()) for one in kept)
    assert 0 < float(((rounded - x) / x).abs().max()) <= 2.0**-24


def test_a_convolution_is_rounded_before_its_bias_is_added():
    x, weight = torch.full((1, 1, 64), 4096.0).double(), torch.ones(1, 1, 1).double()
    for bias, size in ((torch.full((1,), -4096.0).double(), 4096.0), (None, 4096.0)):
        with RandomRounding(torch.Generator().manual_seed(1)):
            rounded = torch.nn.functional.conv1d(x, weight, bias)
        error = rounded if bias is not None else rounded - 4096
        assert 0 < float(error.abs().max()) <= size * 2.0**-24


def test_roundings_do_not_depend_on_how_a_result_lies_in_memory(monkeypatch: pytest.MonkeyPatch):
    x = torch.randn(60, 50, dtype=torch.float64)

    def rounded(value: Any) -> Any:
        with RandomRounding(torch.Generator().manual_seed(1)):
            return value + 0.0

    for piece in (1 << 19, 700):
        monkeypatch.setattr("rounding.PIECE", piece)
        turned = rounded(x.t().contiguous().t())
        assert not turned.is_contiguous()
        assert torch.equal(turned, rounded(x))


def test_a_set_that_is_made_alone_has_threads_for_its_elements():
    def threads(*shape: int) -> int:
        return threads_alone(oracle_case([tensor("x", [*shape])], [tensor("y", [*shape])], []), 16)

    assert [threads(0), threads(64), threads(1024, 1024), threads(1 << 12, 1 << 12)] == [1, 1, 8, 16]
    found: list[int] = []
    case = oracle_case([tensor("x", [64])], [tensor("y", [64])], [input_set(), input_set()])
    before = torch.get_num_threads()
    job = oracle_job("", SourceText(file="reference.py", text=""), [case], threads=2)

    def work(_case: OracleCase, _number: int) -> None:
        found.append(torch.get_num_threads())

    made = side_by_side(job, work, alone=True)
    assert [number for _, number, _ in made] == [0, 1]
    assert found == [1, 1]
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_the_oracle_imports_no_compiler():
    text = """import sys
import torch
from rounding import RandomRounding
with RandomRounding(torch.Generator().manual_seed(1)):
    torch.ones(4, dtype=torch.float64) + 1
sys.exit("torch._dynamo" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", text], env=environment, check=False).returncode == 0


def test_infinities_that_depend_on_the_dtype_are_left_open():
    case = oracle_case([tensor("x", [4, 4], "f16")], [tensor("y", [4, 4], "f16")], [input_set(kind="non-finite")])
    inputs = make_inputs(7, {}, case, 0)

    def undefined(reference: Callable[[Any], Any]) -> bool:
        return compute(job(), reference, None, case, 0, inputs, torch.device("cpu")).undefined

    assert not undefined(lambda x: x * 2)
    # Float64 keeps what leaves the range of float16 on the way.
    assert undefined(lambda x: torch.where(x.abs() < 100, x * 30000 * 30000 - x * 30000 * 30000, x))


def test_infinities_that_depend_on_what_a_rounding_leaves_are_open():
    case = oracle_case([tensor("x", [64], "f32")], [tensor("y", [64], "f32")], [input_set(kind="non-finite")])
    inputs = make_inputs(7, {}, case, 0)

    def undefined(reference: Callable[[Any], Any]) -> bool:
        return compute(job(), reference, None, case, 0, inputs, torch.device("cpu")).undefined

    # Zero but for a rounding, times an infinity.
    assert undefined(lambda x: torch.inf * (x * (1 / 3) * 3 - x))
    assert not undefined(lambda x: torch.inf * (x - x))


def test_infinities_that_depend_on_the_layout_of_convolutions_are_open(monkeypatch: pytest.MonkeyPatch):
    case = oracle_case([tensor("x", [4, 4], "f32")], [tensor("y", [4, 4], "f32")], [input_set(kind="non-finite")])
    inputs = make_inputs(7, {}, case, 0)
    spreads = False

    @contextmanager
    def other() -> Generator[None]:
        nonlocal spreads
        spreads = True
        yield
        spreads = False

    def layouts(_: object) -> list[AbstractContextManager[None]]:
        return [nullcontext(), other()]

    monkeypatch.setattr(oracle, "layouts", layouts)

    def reference(x: Any) -> Any:
        return torch.full_like(x, torch.nan) if spreads else x * 2

    def undefined(case: OracleCase) -> bool:
        return compute(job(), reference, None, case, 0, inputs, torch.device("cpu")).undefined

    assert not undefined(case)
    # It calls PyTorch's operators.
    assert undefined(replace(case, explained=[2.0**-20]))


def test_a_baseline_is_what_pytorch_gets_in_the_real_dtype_or_the_reason_why_it_has_none():
    case = oracle_case([tensor("x", [4, 4], "bf16")], [tensor("y", [4, 4], "bf16")], [input_set(baseline=True)])
    (x,) = make_inputs(7, {}, case, 0)
    assert x is not None

    def eager(reference: Callable[[Any], Any]) -> Any:
        return compute(job(), reference, None, case, 0, [x], torch.device("cpu")).eager

    (got,) = eager(lambda x: x * 2)
    assert same(got, x * 2)
    assert (
        eager(lambda x: x.double())
        == "the reference returns torch.float64 for the real dtypes, op.toml says torch.bfloat16"
    )
    assert on_host([got])[0].device.type == "cpu"


def test_a_reference_with_a_module_is_called_once_at_a_time() -> None:
    alone: dict[str, Any] = {}
    exec("import torch\n_module = torch.nn.Linear(2, 2)\ndef called(x):\n    return _module(x)\n", alone)
    assert keeps_a_module(alone["called"])
    assert not keeps_a_module(input_set)


FLOAT8_CHANGES = [
    Shuffle(input=0, dimension=1),
    Reverse(places=[(0, 1)]),
    Scale(input=0, by=0.5),
    Shift(input=0, by=4.0),
]


@pytest.mark.parametrize("change", FLOAT8_CHANGES, ids=["shuffle", "reverse", "scale", "shift"])
def test_8_bit_floats_are_changed_too(change: Any):
    float8 = replace(tensor("x", [4, 48]), dtype="f8e4m3")
    sets = (input_set(), input_set(edit_of=0, change=change))
    plain, changed = inputs(*sets, specs=[float8]), inputs(*sets, specs=[float8], number=1)
    assert plain[0].dtype == changed[0].dtype == torch.float8_e4m3fn
    old, new = plain[0].float(), changed[0].float()
    expected = {
        Reverse: lambda: old.flip(1),
        Scale: lambda: old * 0.5,
        Shift: lambda: (old + 4).to(plain[0].dtype).float(),
    }
    assert not torch.equal(old, new)
    if type(change) in expected:
        assert torch.allclose(expected[type(change)](), new, atol=0.001)
    else:
        assert torch.equal(old.sort(1).values, new.sort(1).values)
