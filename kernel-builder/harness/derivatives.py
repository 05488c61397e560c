"""Derivatives in closed form, of operators whose derivative PyTorch traces as a loop over an axis.

Owns: the forms. Never: traces them.
"""

from __future__ import annotations

from typing import Any

import torch

aten: Any = torch.ops.aten


class Differentiated(torch.fx.Interpreter):
    """Runs a graph so that autograd uses the forms of this file."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is aten.cumprod.default and args[0].is_floating_point():
            dtype = kwargs.get("dtype")
            values = args[0] if dtype is None else args[0].to(dtype)
            return RunningProduct.apply(values, args[1])  # pyright: ignore[reportUnknownVariableType]
        return super().call_function(target, args, kwargs)


class RunningProduct(torch.autograd.Function):
    """`cumprod`, with the derivative that PyTorch computes outside of a trace (cumprod_backward of FunctionsManual.cpp).

    With `y` the products and `g` their gradient: before the first zero of a row, the gradient is the sum of `g * y` from there
    on, over the element. At the first zero, it is the product of all before it, times the sum of `g` times the products from
    the first zero, left out, up to the second. Behind it, everything is zero.
    """

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, dim: int) -> torch.Tensor:
        products = values.cumprod(dim)
        ctx.save_for_backward(values, products)
        ctx.dim = dim
        return products

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        values, products = ctx.saved_tensors
        (gradient,), dim = gradients, ctx.dim

        def from_there_on(terms: torch.Tensor) -> torch.Tensor:
            return terms.flip(dim).cumsum(dim).flip(dim)

        zero = values == 0
        zeros = zero.cumsum(dim)
        before, first = zeros == 0, zero & (zeros == 1)
        usual = from_there_on(torch.where(before, gradient * products, 0)) / values
        ahead = torch.where(before, values, 1).cumprod(dim)
        behind = torch.where((zeros == 1) & ~zero, values, 1).cumprod(dim)
        at_first = from_there_on(torch.where(zeros == 1, gradient * behind, 0)) * ahead
        return torch.where(before, usual, torch.where(first, at_first, 0)), None
