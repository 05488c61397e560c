"""Functions in the code of objects that are no modules, and functions that take tuples of tensors.

Run by `cargo xtask ci harness`, with torch; without it these tests are skipped.
"""

from __future__ import annotations

import copy
import cProfile
import sys
from typing import Any

import pytest
from test_inject_code import Kernel, Mlp, gates, sums
from test_inject_modules import inject

torch = pytest.importorskip("torch")
nn = torch.nn


def pairs(x: Any, cos: Any, sin: Any) -> Any:
    """A rotary embedding of neighbours, of `[batch, length, heads, dim]`."""
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([-second, first], -1).flatten(-2)
    cos, sin = cos[None, :, None], sin[None, :, None]
    return (x.float() * cos + turned.float() * sin).to(x.dtype)


def apply_pairs(x: Any, table: tuple[Any, Any], sequence_dim: int = 2) -> Any:
    """As diffusers has it: the table is a tuple, and a number says which axis is the length."""
    cos, sin = table
    cos, sin = (cos[None, None], sin[None, None]) if sequence_dim == 2 else (cos[None, :, None], sin[None, :, None])
    first, second = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    turned = torch.stack([-second, first], -1).flatten(3)
    return (x.float() * cos + turned.float() * sin).to(x.dtype)


class Processor:
    """An attention processor as in diffusers: an object that a module calls, and not a module itself."""

    def __init__(self) -> None:
        self.backend = "own"

    def __call__(self, attention: Any, x: Any, table: Any = None) -> Any:
        query = attention.query(x).unflatten(-1, (2, 8))
        if table is not None:
            query = apply_pairs(query, table, sequence_dim=1)
        return query


class Processed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.processor = nn.Linear(16, 16), Processor()

    def forward(self, x: Any, table: Any = None) -> Any:
        return self.processor(self, x, table)


TABLES = (("x", ("batch", "length", "heads", "dim")), ("cos", ("length", "dim")), ("sin", ("length", "dim")))


def tables(**changes: Any) -> Kernel:
    """An operation whose tables are always float32."""
    inputs = tuple(inject.Input(name, axes, False, None if name == "x" else torch.float32) for name, axes in TABLES)
    return Kernel(pairs, *TABLES, leading=False, limits={"dim": (2, 2)}, inputs=inputs, **changes)


def test_a_function_in_an_object_that_a_module_calls_is_replaced_there() -> None:
    kernel, module, x = tables(), Processed().bfloat16(), torch.randn(3, 5, 16, dtype=torch.bfloat16)
    table, own = (torch.randn(5, 8), torch.randn(5, 8)), module.processor
    before = module(x, table)
    injection = kernel.into(module)
    assert injection.replaced == {"": "apply_pairs in Processor"}
    torch.testing.assert_close(module(x, table), before)
    assert kernel.calls == 1 and isinstance(module.processor, Processor) and module.processor.backend == "own"
    module(x)
    # Tables of another dtype, or lengths that are not the table's.
    module(x, (table[0].bfloat16(), table[1].bfloat16()))
    assert kernel.calls == 1
    torch.testing.assert_close(copy.deepcopy(module)(x, list(table)), before)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, table), before)
    assert kernel.calls > 2
    injection.undo()
    assert module.processor is own and torch.equal(module(x, table), before)


def test_an_object_that_somebody_put_there_later_stays() -> None:
    kernel, module = tables(), Processed()
    injection, other = kernel.into(module), Processor()
    assert injection.replaced
    module.processor = other
    injection.undo()
    assert module.processor is other


def test_heads_before_the_length_are_swapped_for_the_kernel() -> None:
    class Turned(Processor):
        def __call__(self, attention: Any, x: Any, table: Any = None) -> Any:
            query = attention.query(x).unflatten(-1, (2, 8)).transpose(1, 2)
            return apply_pairs(query, table)

    kernel, module, x = tables(), Processed(), torch.randn(3, 5, 16)
    module.processor = Turned()
    table = (torch.randn(5, 8), torch.randn(5, 8))
    before = module(x, table)
    # With the heads before the length, the kernel takes the tensors with both swapped.
    assert kernel.into(module).replaced
    torch.testing.assert_close(module(x, table), before)
    assert kernel.calls == 1


def test_a_profiler_goes_on_after_the_search() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    set_before = sys.getprofile()
    try:
        assert gates().into(Mlp()).replaced
        assert sys.getprofile() is set_before
    finally:
        profiler.disable()


def test_a_search_among_large_tensors_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    regions = sys.modules[f"{inject.__name__}.regions"]
    kernel, model = gates(), Mlp()
    monkeypatch.setattr(regions, "MOST_COMPUTED", -1)
    assert not kernel.into(model).replaced
    monkeypatch.undo()
    assert gates().into(model).replaced


def test_three_packages_change_the_code_of_one_module() -> None:
    class Three(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x: Any) -> Any:
            x = x + self.first(x)
            x = nn.functional.silu(self.second(x)) * self.third(x)
            return self.first(x).tanh() - self.second(x)

    def ended(x: Any, y: Any) -> Any:
        return x.tanh() - y

    rows = ("rows", "hidden")
    model, x = Three(), torch.randn(3, 16)
    before, kernels = model(x), (sums(), gates(), Kernel(ended, ("x", rows), ("y", rows)))
    injections = [kernel.into(model) for kernel in kernels]
    assert all(one.replaced for one in injections)
    torch.testing.assert_close(model(x), before)
    assert [kernel.calls for kernel in kernels] == [1, 1, 1]
    for one in reversed(injections):
        one.undo()
    assert torch.equal(model(x), before) and "forward" not in vars(model)
