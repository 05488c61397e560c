"""Operators that PyTorch computes with a loss."""

from __future__ import annotations

import math
import sys
from pathlib import Path

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


def test_other_formulas_and_dtypes_stay() -> None:
    """The approximation by tanh is another function, and a real dtype shows PyTorch's own error."""
    x = torch.linspace(-9.0, 3.0, 100)
    with Exactly():
        approximated = torch.nn.functional.gelu(x.to(torch.float64), approximate="tanh")
        real = torch.nn.functional.gelu(x)
    assert torch.equal(approximated, torch.nn.functional.gelu(x.to(torch.float64), approximate="tanh"))
    assert torch.equal(real, torch.nn.functional.gelu(x))
