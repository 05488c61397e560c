"""Operators that PyTorch computes with a loss."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from exactly import Exactly


def test_gelu_has_its_small_results() -> None:
    """PyTorch's float64 GELU of -12 is zero."""
    values = [-30.0, -12.0, -8.0, -1.0, 0.0, 2.0, 40.0]
    x = torch.tensor(values, dtype=torch.float64)
    with Exactly():
        found = torch.nn.functional.gelu(x)
    wanted = torch.tensor([one * math.erfc(-one * math.sqrt(0.5)) / 2 for one in values], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=1e-14, atol=0.0)
    torch.testing.assert_close(found, torch.nn.functional.gelu(x), rtol=0.0, atol=1e-14)


def test_gelu_by_tanh_has_its_small_results() -> None:
    """Below about -6.3, PyTorch's float64 GELU by tanh is zero."""
    values = [-11.0, -8.0, -6.0, -1.0, 0.0, 2.0, 40.0]
    x = torch.tensor(values, dtype=torch.float64)
    with Exactly():
        found = torch.nn.functional.gelu(x, approximate="tanh")
    twice = [2 * math.sqrt(2 / math.pi) * (one + 0.044715 * one**3) for one in values]
    wanted = torch.tensor([one / (1 + math.exp(-other)) for one, other in zip(values, twice)], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0.0)
    torch.testing.assert_close(found, torch.nn.functional.gelu(x, approximate="tanh"), rtol=0.0, atol=1e-14)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gradients_have_their_small_results(approximate: str) -> None:
    """The slope of GELU is that of what it returns, also where both are tiny."""
    x = torch.tensor([-11.0, -9.0, -7.0, -1.0, 0.0, 2.0, 9.0], dtype=torch.float64, requires_grad=True)

    def slope() -> torch.Tensor:
        return torch.autograd.grad(torch.nn.functional.gelu(x, approximate=approximate).sum(), x)[0]

    with Exactly(), torch.no_grad():
        above = torch.nn.functional.gelu(x + 1e-6, approximate=approximate)
        below = torch.nn.functional.gelu(x - 1e-6, approximate=approximate)
    with Exactly():
        found = slope()
    torch.testing.assert_close(found, (above - below) / 2e-6, rtol=1e-7, atol=0.0)
    torch.testing.assert_close(found, slope(), rtol=0.0, atol=1e-13)


def test_real_dtypes_show_their_own_error() -> None:
    """Only float64 is computed in another way."""
    x = torch.linspace(-9.0, 3.0, 100)
    with Exactly():
        real = [torch.nn.functional.gelu(x, approximate=one) for one in ("none", "tanh")]
    for one, found in zip(("none", "tanh"), real):
        assert torch.equal(found, torch.nn.functional.gelu(x, approximate=one))
