"""Bounds on the work that a person's function makes: operators of a call, elements of the example that it is run on.

Owns: the count of operators, the shorter example. Never: decides what can be translated otherwise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from exported import Untranslated

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from torch.export import ExportedProgram

# Tracing takes about 10 ms for each operator, and a plan for several thousands would have no kernel that anyone reads.
MOST_OPERATORS = 2000
# A function is run in float32, and twice in float64, on no more elements than this, if it takes shorter tensors.
MOST_RUN = 1 << 21
# The shortest that an axis of the example becomes; an odd length has a remainder in every kind of vector.
SHORTEST = 5


class Bounded(TorchDispatchMode):
    """Raises Untranslated, with this reason, after MOST_OPERATORS operators."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason, self.count = reason, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        if self.count > MOST_OPERATORS:
            raise Untranslated(self.reason, final=True)
        return func(*args, **(kwargs or {}))


def elements(values: list[Tensor]) -> int:
    """The elements of all tensors."""
    return sum(one.numel() for one in values)


def first_call(called: Callable[..., Any], values: list[Tensor]) -> None:
    """Calls a function that is about to be exported. A large example stays untouched: only its shapes take part.

    Raises what the function raises, and Untranslated for a call of too many operators.
    """
    bounded = Bounded(
        f"it calls more than {MOST_OPERATORS} operators, as a Python loop over an axis does; "
        "use an operator for the whole axis"
    )
    if elements(values) <= MOST_RUN:
        with torch.no_grad(), bounded:
            called(*[one.clone() for one in values])
        return
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    shapes = [fake.from_tensor(one) for one in values]
    try:
        with torch.no_grad(), fake, bounded:
            called(*shapes)
    except Untranslated:
        raise
    except Exception:  # the export says what is wrong, with a line of the person's file
        return


def shortened(called: Callable[..., Any], program: ExportedProgram, values: list[Tensor]) -> list[Tensor]:
    """The tensors of a call, cut to MOST_RUN elements along axes whose lengths are symbols; as they are where that fails.

    The call with the shorter tensors takes the same way through the code: every condition on lengths that the export met holds.
    """
    if elements(values) <= MOST_RUN:
        return values
    places = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"][-len(values) :]
    symbols: list[Any] = [one for place in places for one in place.shape if isinstance(one, torch.SymInt)]
    if not symbols:
        return values
    shapes: list[list[Any]] = [
        [one.node.expr if isinstance(one, torch.SymInt) else one for one in place.shape] for place in places
    ]
    lengths = shorter_lengths(shapes, symbols[0].node.shape_env)
    cut: list[Tensor] = []
    for one, shape in zip(values, shapes):
        for axis, length in enumerate(shape):
            one = one.narrow(axis, 0, at(length, lengths))
        cut.append(one.clone())
    try:
        with torch.no_grad():
            called(*[one.clone() for one in cut])
    except Exception:  # values may be places along a longer axis
        return values
    return cut


def at(length: Any, lengths: dict[Any, int]) -> int:
    """The value of a length, a number or an expression."""
    return length if isinstance(length, int) else int(length.xreplace(lengths))


def shorter_lengths(shapes: list[list[Any]], environment: Any) -> dict[Any, int]:
    """Lengths for the symbols of shapes, with which these have no more than MOST_RUN elements if possible.

    Axes become shorter from the first to the last, which most functions sum over. `environment` has the lengths of the export
    and the conditions that they met; a length that breaks one of them is not taken.
    """
    known: dict[Any, int] = {symbol: int(value) for symbol, value in environment.backed_var_to_val.items()}
    conditions = [guard.expr.xreplace(environment.replacements) for guard in environment.guards]
    chosen = dict(known)

    def count() -> int:
        return sum(math.prod(at(length, chosen) for length in shape) for shape in shapes)

    def halves(symbols: list[Any]) -> bool:
        """Halves these lengths; whether the conditions still hold."""
        before = {symbol: chosen[symbol] for symbol in symbols}
        chosen.update((symbol, max(SHORTEST, length // 2)) for symbol, length in before.items())
        if all(bool(one.xreplace(chosen) == True) for one in conditions):  # noqa: E712, no truth of Python
            return True
        chosen.update(before)
        return False

    own = dict.fromkeys(one for shape in shapes for length in shape for one in getattr(length, "free_symbols", ()))
    for symbol in own:
        while count() > MOST_RUN and chosen[symbol] > SHORTEST:
            # One may have to be as long as another: the rows of a tensor and of the places that are read of it.
            if not (halves([one for one in own if chosen[one] == chosen[symbol]]) or halves([symbol])):
                break
    return chosen
