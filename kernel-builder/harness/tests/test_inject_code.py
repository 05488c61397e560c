"""Parts of modules and functions that compute an operation, with operations that count their calls.

Run by `cargo xtask ci harness`, with torch; without it these tests are skipped.
"""

from __future__ import annotations

import copy
import functools
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_inject_modules import SOURCE, inject, load

torch = pytest.importorskip("torch")
nn = torch.nn

ROWS = ("rows", "hidden")


def gated(gate: Any, up: Any) -> Any:
    return nn.functional.silu(gate) * up


def packed(x: Any) -> Any:
    gate, up = x.unbind(-2)
    return nn.functional.silu(gate) * up


def add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> tuple[Any, Any]:
    total = (x + residual).to(torch.promote_types(x.dtype, torch.float32))
    scaled = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    return (scaled * weight.to(scaled.dtype)).to(x.dtype), total.to(x.dtype)


def rotary(q: Any, k: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """Of `[batch, length, heads, dim]`."""
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    return q * cos + half(q) * sin, k * cos + half(k) * sin


def half(x: Any) -> Any:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


class Kernel:
    """An operation, and how often it was called."""

    def __init__(self, function: Any, *inputs: tuple[str, tuple[str, ...]], results: int = 1, **changes: Any) -> None:
        self.calls, self.function = 0, function
        known: dict[str, Any] = {
            "name": function.__name__,
            "call": self.call,
            "reference": function,
            "inputs": tuple(inject.Input(name, axes, False) for name, axes in inputs),
            "results": results,
            "leading": True,
            "fixed": {},
            "limits": {},
            "scalars": (),
            "dtypes": frozenset({torch.float32, torch.bfloat16}),
            "differentiable": True,
            "devices": frozenset({"cpu"}),
        }
        self.operation = inject.Operation(**{**known, **changes})

    def call(self, *arguments: Any) -> Any:
        self.calls += 1
        assert all(one.is_contiguous() for one in arguments if isinstance(one, torch.Tensor))
        return self.function(*arguments)

    def into(self, model: Any, own: Any = inject) -> Any:
        return own.inject(self.operation, model)


def gates(**changes: Any) -> Kernel:
    return Kernel(gated, ("gate", ROWS), ("up", ROWS), **changes)


def norms(**changes: Any) -> Kernel:
    inputs = (("x", ROWS), ("residual", ROWS), ("weight", ("hidden",)))
    return Kernel(add_rms_norm, *inputs, results=2, scalars=(("eps", 1e-6),), **changes)


def sums() -> Kernel:
    def added(x: Any, y: Any) -> Any:
        return x + y

    return Kernel(added, ("x", ROWS), ("y", ROWS))


def rotates() -> Kernel:
    axes = ("batch", "length", "heads", "dim"), ("batch", "length", "kv", "dim"), ("batch", "length", "dim")
    inputs = (("q", axes[0]), ("k", axes[1]), ("cos", axes[2]), ("sin", axes[2]))
    return Kernel(rotary, *inputs, results=2, leading=False)


class Mlp(nn.Module):
    """Two branches."""

    def __init__(self, hidden: int = 16, inner: int = 24) -> None:
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Linear(one, other) for one, other in ((hidden, inner), (hidden, inner), (inner, hidden))
        )
        self.act = nn.SiLU()

    def forward(self, x: Any) -> Any:
        return self.down(self.act(self.gate(x)) * self.up(x))


class Packed(nn.Module):
    """One branch with both halves."""

    def __init__(self) -> None:
        super().__init__()
        self.both, self.down = nn.Linear(16, 48), nn.Linear(24, 16)

    def forward(self, x: Any) -> Any:
        gate, up = self.both(x).chunk(2, dim=-1)
        return self.down(up * nn.functional.silu(gate))


class Norm(nn.Module):
    """Scales what was rounded, as Llama does."""

    def __init__(self, hidden: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(hidden))
        self.variance_epsilon = eps

    def forward(self, hidden_states: Any) -> Any:
        wide = hidden_states.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * wide.to(hidden_states.dtype)


def apply_rotary(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> tuple[Any, Any]:
    """Of `[batch, heads, length, dim]`, as transformers does."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return (q * cos) + (half(q) * sin), (k * cos) + (half(k) * sin)


def warns(function: Any) -> Any:
    """A decorator that looks at keywords."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        if "old" in keywords:
            keywords["scale"] = keywords.pop("old")
        return function(*arguments, **keywords)

    return wrapper


class Attention(nn.Module):
    """Rotates, and takes a mask or none."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 16)

    @warns
    def forward(self, hidden: Any, *, angles: tuple[Any, Any], mask: Any = None, scale: float = 1.0) -> Any:
        shape = (*hidden.shape[:-1], -1, 4)
        q, k, v = (one(hidden).view(shape).transpose(1, 2) for one in (self.q, self.k, self.v))
        cos, sin = angles
        q, k = apply_rotary(q, k, cos, sin)
        if mask is not None:
            k = k + mask
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=scale)
        return self.o(mixed.transpose(1, 2).reshape(*hidden.shape[:-1], -1)), None


class Layer(nn.Module):
    """A layer of a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(), Mlp()
        self.before, self.between = Norm(16), Norm(16)

    @warns
    def forward(self, hidden: Any, angles: tuple[Any, Any], **keywords: Any) -> Any:
        residual = hidden
        hidden = self.before(hidden)
        hidden, _ = self.attention(hidden, angles=angles, **keywords)
        hidden = residual + hidden
        residual = hidden
        hidden = self.mlp(self.between(hidden))
        return residual + hidden


def angles(batch: int = 1, length: int = 5) -> tuple[Any, Any]:
    return torch.randn(batch, length, 4), torch.randn(batch, length, 4)


def test_an_activation_between_linear_layers_is_replaced_and_undone() -> None:
    kernel, mlp, x = gates(), Mlp(), torch.randn(2, 5, 16)
    before = mlp(x)
    injection = kernel.into(mlp)
    assert injection.replaced == {"": "part of Mlp"} and len(injection.parts) == 1
    torch.testing.assert_close(mlp(x), before)
    assert kernel.calls == 1
    mlp(torch.randn(16))
    assert kernel.calls == 2
    # So many axes were not compared.
    mlp(torch.randn(2, 2, 2, 2, 2, 16))
    assert kernel.calls == 2
    injection.undo()
    assert torch.equal(mlp(x), before) and kernel.calls == 2 and "forward" not in vars(mlp)


def test_halves_of_one_layer_are_one_tensor() -> None:
    inputs = (("x", ("rows", "halves", "hidden")),)
    kernel, module, x = Kernel(packed, *inputs, fixed={"halves": 2}), Packed(), torch.randn(3, 16)
    before = module(x)
    assert kernel.into(module).replaced
    torch.testing.assert_close(module(x), before)
    assert kernel.calls == 1


def test_a_sum_and_the_norm_after_it_are_one_call() -> None:
    kernel, layer, x = norms(), Layer(), torch.randn(2, 5, 16)
    turned = angles()
    before = layer(x, turned)
    assert kernel.into(layer).replaced == {"": "part of Layer"}
    torch.testing.assert_close(layer(x, turned), before)
    torch.testing.assert_close(layer(x, turned, scale=0.5), layer(x, turned, old=0.5))
    assert kernel.calls == 3
    # The norm that is in no such sum is called as before.
    seen: list[int] = []

    def see(*_: Any) -> None:
        seen.append(1)

    layer.before.register_forward_hook(see)
    layer(x, turned)
    assert seen == [1] and kernel.calls == 4


def test_hooks_of_a_module_that_became_part_of_a_call_are_called() -> None:
    kernel, layer, x, turned = norms(), Layer(), torch.randn(2, 5, 16), angles()
    kernel.into(layer)
    seen: list[int] = []

    def see(*_: Any) -> None:
        seen.append(1)

    handle = layer.between.register_forward_hook(see)
    before = layer(x, turned)
    assert seen == [1] and kernel.calls == 0
    handle.remove()
    torch.testing.assert_close(layer(x, turned), before)
    assert kernel.calls == 1


@pytest.mark.parametrize("batch", [1, 2])
def test_a_function_that_code_calls_is_replaced_there_alone(batch: int) -> None:
    kernel, attention, x, turned = rotates(), Attention(), torch.randn(2, 5, 16), angles(batch)
    before, own = attention(x, angles=turned)[0], apply_rotary
    injection = kernel.into(attention)
    assert injection.replaced == {"": "apply_rotary in Attention"}
    torch.testing.assert_close(attention(x, angles=turned)[0], before)
    torch.testing.assert_close(attention(x, angles=turned, old=1.0)[0], before)
    assert kernel.calls == 2 and apply_rotary is own
    injection.undo()
    assert torch.equal(attention(x, angles=turned)[0], before) and kernel.calls == 2


def test_several_packages_share_a_model_and_go_in_the_order_in_which_they_came() -> None:
    kernels = [norms(), gates(), rotates()]
    model, x, turned = nn.ModuleList([Layer(), Layer()]), torch.randn(2, 5, 16), angles()

    def run(layers: Any) -> Any:
        return layers[1](layers[0](x, turned), turned)

    before = run(model)
    injections = [kernel.into(model) for kernel in kernels]
    again = norms()
    twice = again.into(model)
    assert not twice.replaced, "a second package of the same name"
    torch.testing.assert_close(run(model), before)
    assert [kernel.calls for kernel in kernels] == [2, 2, 2]
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].mlp.down.weight.zero_()
    assert not torch.equal(run(other), before) and [kernel.calls for kernel in kernels] == [4, 4, 4]
    torch.testing.assert_close(run(model), before)
    for injection in reversed(injections):
        injection.undo()
    assert torch.equal(run(model), before) and not any("_before_inject" in vars(one) for one in model.modules())


def test_what_another_package_stands_on_is_not_undone() -> None:
    def one_more(x: Any) -> Any:
        return x + 1.0

    first, second = gates(), Kernel(one_more, ("x", ROWS))

    class More(Mlp):
        def forward(self, x: Any) -> Any:
            return self.down(self.act(self.gate(x)) * self.up(x + 1.0))

    module = More()
    one, two = first.into(module), second.into(module)
    assert one.replaced and two.replaced
    with pytest.raises(RuntimeError, match="also calls one_more"):
        one.undo()
    module(torch.randn(3, 16))
    assert (first.calls, second.calls) == (1, 1)
    two.undo()
    one.undo()
    assert "forward" not in vars(module)


def test_compiled_code_and_gradients_are_the_same() -> None:
    kernels = [norms(), gates(), rotates()]
    layer, x, turned = Layer(), torch.randn(2, 5, 16, requires_grad=True), angles()
    layer(x, turned).sum().backward()
    expected, x.grad = x.grad.clone(), None
    for kernel in kernels:
        kernel.into(layer)
    torch.compile(layer, backend="eager", fullgraph=True)(x, turned).sum().backward()
    torch.testing.assert_close(x.grad, expected)
    assert all(kernel.calls for kernel in kernels)
    x.grad = None
    torch.utils.checkpoint.checkpoint(layer, x, turned, use_reentrant=False).sum().backward()
    torch.testing.assert_close(x.grad, expected)


@pytest.mark.parametrize("what", [{"devices": frozenset({"cuda"})}, {"dtypes": frozenset({torch.bfloat16})}])
def test_calls_that_the_kernel_does_not_serve_are_the_codes_own(what: dict[str, Any]) -> None:
    kernel, mlp, x = gates(**what), Mlp(), torch.randn(3, 16)
    before = mlp(x)
    assert kernel.into(mlp).replaced
    assert torch.equal(mlp(x), before) and kernel.calls == 0


def test_the_numbers_of_a_module_further_inside_are_its_own() -> None:
    class Inner(nn.Module):
        def __init__(self, eps: float) -> None:
            super().__init__()
            self.norm = Norm(16, eps)

    class Outer(nn.Module):
        def __init__(self, eps: float) -> None:
            super().__init__()
            self.inner, self.linear = Inner(eps), nn.Linear(16, 16)

        def forward(self, x: Any) -> Any:
            total = x + self.linear(x)
            return total + self.inner.norm(total)

    model, x = nn.Sequential(Outer(1e-5), Outer(0.5)), torch.randn(3, 16)
    before, kernel = model(x), norms()
    assert set(kernel.into(model).replaced) == {"0", "1"}
    torch.testing.assert_close(model(x), before)
    assert kernel.calls == 2


def test_tensors_that_are_only_broadcast_are_the_codes_own() -> None:
    class Broadcast(Mlp):
        def forward(self, x: Any) -> Any:
            return self.act(self.gate(x[0])) * self.up(x[1])

    kernel, module = gates(), Broadcast()
    kernel.into(module)
    assert module((torch.randn(3, 16), torch.randn(1, 16))).shape == (3, 24) and kernel.calls == 0
    assert module((torch.randn(3, 16), torch.randn(3, 16))).shape == (3, 24) and kernel.calls == 1


def scaled_norm(x: Any, scale: Any, eps: float = 1e-6) -> Any:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * (1 + scale)


class MayScale(nn.Module):
    """A norm with a weight or none, as in diffusers."""

    def __init__(self) -> None:
        super().__init__()
        self.eps, self.weight = 1e-5, None

    def forward(self, x: Any) -> Any:
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.weight is not None:
            x = x * self.weight
        return x


class Modulated(nn.Module):
    """Scales a norm, and adds what another module gives, by factors of each sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner, self.table = MayScale(), nn.Linear(16, 16), nn.Linear(16, 32)

    def forward(self, x: Any, time: Any) -> Any:
        scale, gate = self.table(time).chunk(2, dim=-1)
        return x + self.inner(self.norm(x) * (1 + scale)) * gate


def add_scaled(x: Any, y: Any, gate: Any) -> Any:
    return x + y * gate


def test_factors_that_are_repeated_along_an_axis() -> None:
    whole, factors = ("batch", "length", "hidden"), ("batch", "one", "hidden")
    norm = Kernel(
        scaled_norm, ("x", whole), ("scale", factors), leading=False, fixed={"one": 1}, scalars=(("eps", 1e-6),)
    )
    inputs = (("x", whole), ("y", whole), ("gate", factors))
    added = Kernel(add_scaled, *inputs, leading=False, fixed={"one": 1})
    module, x, time = Modulated(), torch.randn(2, 5, 16), torch.randn(2, 1, 16)
    before = module(x, time)
    assert norm.into(module).replaced and added.into(module).replaced
    torch.testing.assert_close(module(x, time), before)
    assert (norm.calls, added.calls) == (1, 1)


def test_lengths_that_the_kernel_does_not_take_are_the_codes_own() -> None:
    kernel, mlp = gates(limits={"hidden": (2, 16)}), Mlp()
    wide = Mlp(16, 32)
    for module in (mlp, wide):
        assert kernel.into(module).replaced
        module(torch.randn(3, 16))
    assert kernel.calls == 1


class Training(Mlp):
    """Differs in training."""

    def forward(self, x: Any) -> Any:
        return self.down(self.act(self.gate(x)) * self.up(x) * (0.5 if self.training else 1.0))


class InPlace(Mlp):
    """Activates in place."""

    def forward(self, x: Any) -> Any:
        return self.down(nn.functional.silu(self.gate(x), True) * self.up(x))


class Within(Mlp):
    """Computes in a context."""

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return self.down(self.act(self.gate(x)) * self.up(x))


class Helped(Mlp):
    """Calls a function with another way through it."""

    def forward(self, x: Any) -> Any:
        return self.down(helper(self.act(self.gate(x)) * self.up(x)))


def helper(x: Any, other: Any = None) -> Any:
    return x if other is None else x + other


@pytest.mark.parametrize("kind", [Training, InPlace, Within, Helped])
def test_code_that_a_trace_does_not_say_all_of_is_left(kind: type[Any]) -> None:
    module = kind()
    assert not gates().into(module).replaced and "forward" not in vars(module)


def test_what_only_looks_alike_is_left() -> None:
    class Other(Mlp):
        def forward(self, x: Any) -> Any:
            return self.down(nn.functional.gelu(self.gate(x)) * self.up(x))

    assert not gates().into(Other()).replaced


def test_packages_with_copies_of_inject_share_the_code_of_a_module(tmp_path: Path) -> None:
    other = tmp_path / "inject"
    shutil.copytree(SOURCE.parent, other)
    kernels, layer, x, turned = [norms(), sums()], Layer(), torch.randn(2, 5, 16), angles()
    before = layer(x, turned)
    first = kernels[0].into(layer)
    second = kernels[1].into(layer, load(other / "__init__.py", "another"))
    assert (first.replaced, second.replaced) == ({"": "part of Layer"}, {"": "part of Layer"})
    torch.testing.assert_close(layer(x, turned), before)
    assert [one.calls for one in kernels] == [1, 1]


def test_a_result_may_be_used_before_the_last_tensor_is_there() -> None:
    """The scale of a norm is computed after the sum that is a result as well."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.after = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x: Any, scale: Any, shift: Any) -> Any:
            total = x + self.linear(x)
            normed = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-6)
            return total + self.after(normed * (1 + scale) + shift)

    def summed(x: Any, branch: Any, scale: Any, shift: Any) -> tuple[Any, Any]:
        total = x + branch
        normed = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-6)
        return total, normed * scale + shift

    axes, one = ("batch", "length", "hidden"), ("batch", "one", "hidden")
    inputs = [("x", axes), ("branch", axes), ("scale", one), ("shift", one)]
    kernel = Kernel(summed, *inputs, results=2, leading=False, fixed={"one": 1})
    module, given = Scaled(), [torch.randn(2, 5, 16), torch.randn(2, 1, 16), torch.randn(2, 1, 16)]
    before = module(*given)
    assert kernel.into(module).replaced
    torch.testing.assert_close(module(*given), before)
    assert kernel.calls == 1
