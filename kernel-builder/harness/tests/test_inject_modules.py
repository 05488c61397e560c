"""Modules that compute an operation, with one that counts its calls.

Run by `cargo xtask ci harness`, with torch; without it these tests are skipped.
"""

from __future__ import annotations

import copy
import importlib.util
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

SOURCE = Path(__file__).resolve().parents[2] / "resources/host/inject/__init__.py"


def load(source: Path = SOURCE, name: str = "inject") -> Any:
    spec = importlib.util.spec_from_file_location(name, source, submodule_search_locations=[str(source.parent)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


inject = load()


def rms_norm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (scaled * weight.to(scaled.dtype)).to(x.dtype)


class Kernel:
    """The operation, and how often it was called."""

    def __init__(self, **changes: Any) -> None:
        self.calls = 0
        known: dict[str, Any] = {
            "name": "rms_norm",
            "call": self.call,
            "reference": rms_norm,
            "inputs": (inject.Input("x", ("rows", "hidden"), False), inject.Input("weight", ("hidden",), False)),
            "results": 1,
            "leading": True,
            "fixed": {},
            "limits": {},
            "scalars": (("eps", 1e-6),),
            "dtypes": frozenset({torch.float32, torch.bfloat16}),
            "differentiable": True,
            "devices": frozenset({"cpu"}),
        }
        self.operation = inject.Operation(**{**known, **changes})

    def call(self, *arguments: Any) -> Any:
        self.calls += 1
        return rms_norm(*arguments)

    def into(self, model: Any) -> Any:
        return inject.inject(self.operation, model)


class RoundsFirst(nn.Module):
    """Scales what was rounded, as Llama does; eps has another name."""

    def __init__(self, hidden: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.variance_epsilon = eps

    def forward(self, hidden_states: Any) -> Any:
        wide = hidden_states.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * wide.to(hidden_states.dtype)


class AddsOne(nn.Module):
    """Scales by 1 + weight, as Gemma does."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(hidden))
        self.eps = 1e-6

    def forward(self, x: Any) -> Any:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * (1.0 + self.weight.float())).type_as(x)


class Bare(nn.Module):
    """Has no weight."""

    def __init__(self) -> None:
        super().__init__()
        self.eps = 1e-5

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class MeanToo(nn.Module):
    """Looks like one and is none."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.eps = 1e-6

    def forward(self, x: Any) -> Any:
        return (
            self.weight * (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, correction=0) + self.eps)
        )


class OverColumns(nn.Module):
    """The same over the last axis but one: right for no number of axes."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.eps = 1e-6

    def forward(self, x: Any) -> Any:
        return self.weight[:, None] * x * torch.rsqrt(x.pow(2).mean(-2, keepdim=True) + self.eps)


def model() -> Any:
    return nn.Sequential(
        nn.Linear(16, 16), RoundsFirst(16), nn.GELU(), AddsOne(16), nn.LayerNorm(16), nn.RMSNorm(16, eps=1e-5), Bare()
    )


def test_only_what_computes_the_same_is_replaced_and_undone() -> None:
    kernel, network, x = Kernel(), model(), torch.randn(2, 5, 16)
    before = network(x)
    injection = kernel.into(network)
    assert injection.replaced == {"1": "RoundsFirst", "3": "AddsOne", "5": "RMSNorm", "6": "Bare"}
    assert injection.left == {}
    torch.testing.assert_close(network(x), before)
    assert kernel.calls == 4
    again = kernel.into(network)
    assert not again.replaced and "already" in again.left["1"]
    injection.undo()
    assert torch.equal(network(x), before) and kernel.calls == 4
    assert all("forward" not in vars(module) for module in network)
    pickle.dumps(network)


def test_the_context_ends_with_the_model_as_it_was() -> None:
    kernel, network, x = Kernel(), model(), torch.randn(3, 16)
    before = network(x)
    with pytest.raises(ZeroDivisionError), kernel.into(network):
        network(x)
        raise ZeroDivisionError
    assert torch.equal(network(x), before) and kernel.calls == 4


def test_what_differs_is_left_with_the_difference() -> None:
    injection = Kernel().into(nn.Sequential(MeanToo(16), OverColumns(16)))
    assert not injection.replaced
    assert "differ by" in injection.left["0"] and "left     0: its results differ" in str(injection)
    assert str(Kernel().into(nn.ReLU())) == "nothing to replace"


def test_one_plus_weight_is_left_where_the_sum_would_be_rounded() -> None:
    injection = Kernel().into(AddsOne(16).bfloat16())
    assert injection.left[""] == "it adds 1 to `weight`, and the sum would be rounded to torch.bfloat16"


@pytest.mark.parametrize(("what", "served"), [("devices", "cuda"), ("dtypes", torch.bfloat16)])
def test_calls_that_the_kernel_does_not_serve_are_the_modules_own(what: str, served: Any) -> None:
    kernel, module, x = Kernel(**{what: frozenset({served})}), RoundsFirst(16), torch.randn(3, 16)
    before = module(x)
    assert kernel.into(module).replaced
    assert torch.equal(module(x), before) and kernel.calls == 0


def test_an_operation_without_a_gradient_serves_calls_that_need_none() -> None:
    kernel, module, x = Kernel(differentiable=False), RoundsFirst(16), torch.randn(3, 16)
    kernel.into(module)
    module(x).sum().backward()
    assert kernel.calls == 0 and module.weight.grad is not None
    with torch.no_grad():
        module(x)
    assert kernel.calls == 1


def test_a_call_by_name_or_with_another_dtype_than_the_weight() -> None:
    kernel, module, x = Kernel(), RoundsFirst(16), torch.randn(3, 16)
    kernel.into(module)
    module(hidden_states=x)
    assert kernel.calls == 1
    assert module(x.bfloat16()).dtype == torch.float32 and kernel.calls == 1


def test_a_copy_calls_the_kernel_with_its_own_parameters() -> None:
    kernel, module, x = Kernel(), RoundsFirst(16), torch.randn(3, 16)
    kernel.into(module)
    other = copy.deepcopy(module)
    with torch.no_grad():
        other.weight.mul_(2)
    torch.testing.assert_close(other(x), 2 * module(x))
    assert kernel.calls == 2


def test_a_module_that_had_a_forward_of_its_own_gets_it_back() -> None:
    kernel, module, x = Kernel(), RoundsFirst(16), torch.randn(3, 16)
    own = module.forward
    module.forward = own
    injection = kernel.into(module)
    module(x)
    assert kernel.calls == 1
    injection.undo()
    assert module.forward is own and "_before_inject" not in vars(module)


def test_hooks_of_accelerate_stay_around_the_kernel() -> None:
    kernel, module, x = Kernel(), RoundsFirst(16), torch.randn(3, 16)
    seen: list[int] = []
    module._hf_hook = object()
    module._old_forward = module.forward

    def hooked(*arguments: Any) -> Any:
        seen.append(1)
        return module._old_forward(*arguments)

    module.__dict__["forward"] = hooked
    injection = kernel.into(module)
    module(x)
    assert (kernel.calls, len(seen)) == (1, 1)
    injection.undo()
    module(x)
    assert (kernel.calls, len(seen)) == (1, 2)


def test_parameters_without_values_are_left() -> None:
    with torch.device("meta"):
        module = RoundsFirst(16)
    assert "device meta" in Kernel().into(module).left[""]


def test_training_and_compiled_code_are_the_same() -> None:
    kernel, module, x = Kernel(), RoundsFirst(16), torch.randn(3, 16, requires_grad=True)
    module(x).sum().backward()
    expected, x.grad = x.grad.clone(), None
    kernel.into(module)
    torch.compile(module, backend="eager", fullgraph=True)(x).sum().backward()
    torch.testing.assert_close(x.grad, expected)
    assert kernel.calls > 0


class OnlyInEvaluation(RoundsFirst):
    """Adds noise in training."""

    def forward(self, hidden_states: Any) -> Any:
        result = super().forward(hidden_states)
        return result + torch.randn_like(result) if self.training else result


def test_a_module_that_trains_otherwise_is_replaced_in_the_mode_that_agrees() -> None:
    kernel, module, x = Kernel(), OnlyInEvaluation(16).eval(), torch.randn(3, 16)
    assert kernel.into(module).replaced
    module(x)
    assert kernel.calls == 1
    module.train()(x)
    assert kernel.calls == 1
    assert "differ by" in Kernel().into(OnlyInEvaluation(16)).left[""]


def test_ones_that_were_made_in_inference_mode_can_be_trained_with() -> None:
    kernel, module, x = Kernel(), Bare(), torch.randn(3, 11, requires_grad=True)
    kernel.into(module)
    with torch.inference_mode():
        module(x)
    module(x).sum().backward()
    assert kernel.calls == 2 and x.grad is not None


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(TypeError, match="not list"):
        Kernel().into([1])
