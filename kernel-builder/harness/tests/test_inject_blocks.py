"""Parts of code that is not traced as a whole: blocks of statements, between code with branches.

Run by `cargo xtask ci harness`, with torch; without it these tests are skipped.
"""

from __future__ import annotations

import importlib
import linecache
import types
from typing import Any

import pytest
from test_inject_code import Kernel, Mlp, Norm, gates, half

torch = pytest.importorskip("torch")
nn = torch.nn

QUERY, KEY, TABLE = ("batch", "length", "heads", "dim"), ("batch", "length", "kv", "dim"), ("batch", "length", "dim")


def normed(x: Any, weight: Any, eps: float) -> Any:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def norm_rotary(q: Any, k: Any, cos: Any, sin: Any, q_weight: Any, k_weight: Any, eps: float = 1e-5) -> Any:
    """Norms of queries and keys with their rotary embedding, with the heads before the length."""
    q, k = normed(q, q_weight, eps).transpose(1, 2), normed(k, k_weight, eps).transpose(1, 2)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + half(q) * sin, k * cos + half(k) * sin


def embedded(q: Any, k: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + half(q) * sin, k * cos + half(k) * sin


def norms(**changes: Any) -> Kernel:
    tensors = (("q", QUERY), ("k", KEY), ("cos", TABLE), ("sin", TABLE), ("q_weight", ("dim",)), ("k_weight", ("dim",)))
    return Kernel(norm_rotary, *tensors, results=2, leading=False, scalars=(("eps", 1e-6),), **changes)


class Attention(nn.Module):
    """With norms of queries and keys, a cache, and a choice of functions, as in transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.head_dim, self.groups, self.scaling = 8, 2, 8**-0.5
        self.q, self.k, self.v, self.o = nn.Linear(16, 32), nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(32, 16)
        self.q_norm, self.k_norm = Norm(8), Norm(8)
        self.functions = {"plain": self.attend}

    def attend(self, q: Any, k: Any, v: Any) -> Any:
        k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)
        return nn.functional.scaled_dot_product_attention(q, k, v)

    def forward(self, x: Any, tables: tuple[Any, Any], cache: dict[str, Any] | None = None, name: str = "plain") -> Any:
        shape = x.shape[:-1]
        heads = (*shape, -1, self.head_dim)
        q = self.q_norm(self.q(x).view(heads)).transpose(1, 2)
        k = self.k_norm(self.k(x).view(heads)).transpose(1, 2)
        v = self.v(x).view(heads).transpose(1, 2)
        cos, sin = tables
        q, k = embedded(q, k, cos, sin)
        if cache is not None:
            cache["k"] = k
        scale = self.scaling
        attend = self.functions[name]
        found = attend(q * scale, k, v).transpose(1, 2).reshape(*shape, -1)
        return self.o(found)


def inputs() -> tuple[Any, Any]:
    torch.manual_seed(0)
    angles = torch.randn(2, 5, 8)
    return torch.randn(2, 5, 16), (angles.cos(), angles.sin())


def test_norms_of_heads_and_their_embedding_are_one_call_in_code_with_branches() -> None:
    model, kernel = nn.ModuleList([Attention(), Attention()]).eval(), norms()
    x, tables = inputs()
    expected = [one(x, tables) for one in model]
    injection = kernel.into(model)
    assert injection.replaced == {"0": "part of Attention", "1": "part of Attention"}
    cache: dict[str, Any] = {}
    for one, before in zip(model, expected, strict=True):
        torch.testing.assert_close(one(x, tables, cache=cache), before)
    assert kernel.calls == 2
    assert cache["k"].shape == (2, 2, 5, 8)
    injection.undo()
    assert all("forward" not in vars(one) for one in model)
    assert all(torch.equal(one(x, tables), before) for one, before in zip(model, expected, strict=True))
    assert kernel.calls == 2


def swapped_norm_rotary(*tensors: Any) -> Any:
    q, k = norm_rotary(*tensors)
    return q.transpose(1, 2), k.transpose(1, 2)


def test_results_with_the_length_before_the_heads_are_swapped() -> None:
    model, kernel = Attention().eval(), norms()
    x, tables = inputs()
    expected = model(x, tables)
    kernel.function = swapped_norm_rotary
    object.__setattr__(kernel.operation, "reference", swapped_norm_rotary)
    kernel.into(model)
    cache: dict[str, Any] = {}
    torch.testing.assert_close(model(x, tables, cache=cache), expected)
    assert kernel.calls == 1
    assert cache["k"].shape == (2, 2, 5, 8)


def test_tables_of_one_sequence_serve_a_batch() -> None:
    model, kernel = Attention().eval(), norms()
    x, (cos, sin) = inputs()
    tables = cos[:1], sin[:1]
    expected = model(x, tables)
    kernel.into(model)
    torch.testing.assert_close(model(x, tables), expected)
    torch.testing.assert_close(model(x[:1], tables), expected[:1])
    assert kernel.calls == 2
    # Tables of another length than the positions are the code's own, which refuses them.
    with pytest.raises(RuntimeError):
        model(x, (cos[:, :3], sin[:, :3]))
    assert kernel.calls == 2


def test_what_the_code_reads_later_may_still_change() -> None:
    model, kernel = Attention().eval(), norms()
    x, tables = inputs()
    kernel.into(model)
    before = model(x, tables)

    def twice(q: Any, k: Any, v: Any) -> Any:
        return q + model.attend(q, k, v)

    model.scaling, model.functions = 0.5, {"plain": twice}
    found = model(x, tables)
    assert kernel.calls == 2
    torch.testing.assert_close(found, type(model).forward(model, x, tables))
    assert not torch.allclose(found, before)


@pytest.mark.parametrize("what", ["dtype", "length"])
def test_calls_that_the_kernel_does_not_serve_run_the_statements(what: str) -> None:
    changes: dict[str, Any] = {"dtypes": frozenset({torch.bfloat16})} if what == "dtype" else {"fixed": {"dim": 4}}
    model = Attention().eval()
    kernel, (x, tables) = norms(**changes), inputs()
    expected = model(x, tables)
    kernel.into(model)
    assert torch.equal(model(x, tables), expected)
    assert kernel.calls == 0


def test_hooks_of_a_norm_in_a_block_are_called() -> None:
    model, kernel = Attention().eval(), norms()
    x, tables = inputs()
    kernel.into(model)
    seen: list[int] = []

    def hook(*_: Any) -> None:
        seen.append(1)

    model.q_norm.register_forward_hook(hook)
    model(x, tables)
    assert (seen, kernel.calls) == ([1], 0)


def test_blocks_are_compiled_and_have_gradients() -> None:
    model, kernel = Attention(), norms()
    x, tables = inputs()
    model(x, tables).sum().backward()
    expected = {name: one.grad.clone() for name, one in model.named_parameters()}
    kernel.into(model)
    model.zero_grad()
    torch.compile(model, fullgraph=True, backend="eager")(x, tables).sum().backward()
    assert kernel.calls == 1
    for name, one in model.named_parameters():
        torch.testing.assert_close(one.grad, expected[name])


class Gated(nn.Module):
    """Two blocks, of which each has a part for another operation."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down, self.norm = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), Norm(8)

    def forward(self, x: Any, *, times: int = 2, **others: Any) -> Any:
        """Counts what it does."""
        inner = nn.functional.silu(self.gate(x)) * self.up(x)
        for _ in range(times):
            x = x + self.down(inner)
        y: Any = self.norm(x + inner)
        return y, others


def test_two_packages_change_blocks_of_the_same_code() -> None:
    def sums(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> Any:
        return normed(x + residual, weight, eps)

    rows = ("rows", "hidden")
    model, first = Gated().eval(), gates()
    second = Kernel(sums, ("x", rows), ("residual", rows), ("weight", ("hidden",)), scalars=(("eps", 1e-6),))
    x = torch.randn(3, 8)
    expected, _ = model(x, times=3)
    injections = [first.into(model), second.into(model)]
    found, others = model(x, times=3, more=1)
    torch.testing.assert_close(found, expected)
    assert (first.calls, second.calls, others) == (1, 1, {"more": 1})
    torch.testing.assert_close(model(x)[0], type(model).forward(model, x)[0])
    for one in reversed(injections):
        one.undo()
    assert "forward" not in vars(model)


def test_the_text_of_changed_code_is_in_tracebacks() -> None:
    model, kernel = Attention().eval(), norms()
    x, tables = inputs()
    kernel.into(model)
    with pytest.raises(KeyError) as error:
        model(x, tables, name="none")
    line = error.traceback[-1]
    assert "self.functions[name]" in linecache.getline(str(line.path), line.lineno + 1)


class Unclear(nn.Module):
    """Computes the operation's results, but in statements that need others in between."""

    def __init__(self) -> None:
        super().__init__()
        self.q_norm, self.k_norm = Norm(8), Norm(8)

    def forward(self, q: Any, k: Any, cos: Any, sin: Any, keep: list[Any] | None = None) -> Any:
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        if keep is not None:
            keep.append(q)
        return embedded(q, k, cos, sin)


def test_statements_around_a_branch_are_no_block() -> None:
    model, kernel = Unclear(), norms()
    assert kernel.into(model).replaced == {}
    assert "forward" not in vars(model)


class Choosing(Mlp):
    """Has another way through its code, writes to a tensor, and keeps one."""

    def forward(self, x: Any, other: Any = None) -> Any:
        if other is not None:
            x = x + other
        inner = self.act(self.gate(x)) * self.up(x)
        inner += 1.0
        self.last = inner
        return self.down(self.act(self.gate(x)) * self.up(x)) + self.down(inner)


def test_statements_between_those_that_no_trace_tells_are_replaced() -> None:
    model, kernel = Choosing(), gates()
    x, other = torch.randn(3, 16), torch.randn(3, 16)
    expected = [model(x), model(x, other)]
    kernel.into(model)
    for one, given in zip(expected, ((x,), (x, other)), strict=True):
        torch.testing.assert_close(model(*given), one)
    assert kernel.calls == 4
    torch.testing.assert_close(model.last, model.act(model.gate(x + other)) * model.up(x + other) + 1.0)


def test_code_whose_file_has_changed_since_is_left() -> None:
    name = "<changed>"
    text = "def forward(self, x):\n    y = x * 2\n    for _ in (1,):\n        y = y + 1\n    return y\n"
    names: dict[str, Any] = {}
    exec(compile(text, name, "exec"), names)
    parsed: Any = importlib.import_module("inject.blocks")._parsed  # The function that reads the text.
    forward: types.FunctionType = names["forward"]
    for other, same in (
        (text, True),
        (text.replace("* 2", "* 3"), False),
        (text.replace("* 2", "* 2.0"), False),
        ("", False),
    ):
        linecache.cache[name] = (len(other), None, other.splitlines(keepends=True), name)
        assert (parsed(forward) is not None) is same


def test_code_that_sets_a_global_name_is_left() -> None:
    text = """def forward(self, x, times=None):
    global seen
    if times is not None:
        x = x * times
    seen = self.act(self.gate(x)) * self.up(x)
    return self.down(x)
"""
    lines: list[str] = list(text.splitlines(keepends=True))
    linecache.cache["<sets>"] = (len(text), None, lines, "<sets>")
    names: dict[str, Any] = {"seen": None}
    exec(compile(text, "<sets>", "exec"), names)
    model: Any = type("Setting", (Mlp,), {"forward": names["forward"]})(hidden=16, inner=16)
    assert gates().into(model).replaced == {}
    model(torch.randn(3, 16))
    assert names["seen"] is not None


def test_inject_reads_no_code_that_is_not_there() -> None:
    names: dict[str, Any] = {}
    exec(compile("def forward(self, x):\n    return [one for one in (x,)]\n", "<nowhere>", "exec"), names)
    kind = type("Nowhere", (nn.Module,), {"forward": names["forward"]})
    assert norms().into(kind()).replaced == {}
