"""The values of inputs: how they are distributed, what spoils them, and what is changed between two sets.

Owns: the kinds of values that the schedule names. Never: knows a seed; random numbers come from the caller.
"""

from typing import cast

import torch

from protocol import TensorSpec
from protocol_verify import Distribution, OracleCase
from tensors import DTYPES

# The deviations of `small` and `large` where they are not 1/1024 and 1024: squares stay finite in 16 bits, few values
# are lost to zero; sums of a few terms leave the range of E4M3, which is the way to see how a kernel takes that.
SMALL = {torch.float8_e4m3fn: 1 / 16}
LARGE = {torch.float16: 32, torch.float8_e5m2: 32, torch.float8_e4m3fn: 64}

# What `outlier` and `tiny` have where it is not 2^17 and 2^-40: the first leaves the range of another format of as many
# bits where it can, and stays in its own; the second is subnormal where exponents are few.
HUGE = {torch.float16: 8192.0, torch.float8_e5m2: 4096.0, torch.float8_e4m3fn: 256.0}
TINY = {torch.float16: 2.0**-18, torch.float8_e5m2: 2.0**-15, torch.float8_e4m3fn: 2.0**-7}

# The distance from zero of `shifted` where it is not 128: exponentials of it underflow in float32, and in 16 bits a product of
# two is finite.
FAR = {torch.float16: 64.0, torch.float8_e5m2: 64.0, torch.float8_e4m3fn: 64.0}


def rounded(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Values in `dtype`, none of them beyond its finite range."""
    largest = torch.finfo(dtype).max
    return values.clamp(-largest, largest).to(dtype)


def distribution(
    kind: Distribution, shape: list[int], dtype: torch.dtype, random: torch.Generator, share: tuple[int, int] = (0, 1)
) -> torch.Tensor:
    """One input; `kind` says how its values are distributed.

    `normal`: mean 0, deviation 1. `small` and `large`: mean 0, the deviations above. `sparse`: normal, nine of ten
    elements zero, and all of the first index of the first axis. The hard ones go by rows, which are lines of the last
    axis: `uniform` is between 0 and 1, `equal` a power of two all along a row (sums of which round nothing), `one-hot`
    zero but for one 1, `sorted` positive and ascending, `shifted` normal around a number far from zero, which is negative
    in every other row, `outlier` normal but for one huge element, `tiny` minute; `mixed` has rows of all of these kinds,
    but for those that belong to the `share` of another input.
    """
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=random).to(dtype)
    if not dtype.is_floating_point:
        return torch.randint(0, 2, shape, generator=random, dtype=dtype)
    values = torch.randn(shape, generator=random, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    if kind == "small":
        values = values * SMALL.get(dtype, 1 / 1024)
    elif kind == "large":
        values = values * LARGE.get(dtype, 1024)
    elif kind == "sparse":
        keep = torch.rand(shape, generator=random) < 0.1
        values = torch.where(keep, values, torch.zeros_like(values))
        if values.dim() > 1 and values.shape[0] > 1:
            values[0] = 0
    elif kind == "mixed" and values.numel():
        values = mixed(values if values.dim() else values.view(1), dtype, random, share).view(shape)
    elif kind != "normal" and kind != "non-finite" and values.numel():
        values = hard(kind, values if values.dim() else values.view(1), dtype, random).view(shape)
    return rounded(values, dtype)


def hard(kind: str, values: torch.Tensor, dtype: torch.dtype, random: torch.Generator) -> torch.Tensor:
    """Values that are hard for a kernel, of the shape of some normal ones."""
    rows = [*values.shape[:-1], 1]
    place = torch.randint(0, values.shape[-1], rows, generator=random)
    if kind == "tiny":
        return values * TINY.get(dtype, 2.0**-40)
    if kind == "uniform":
        return torch.rand(values.shape, generator=random, dtype=values.dtype)
    if kind == "equal":
        size = 2.0 ** torch.randint(-2, 3, rows, generator=random).to(values.dtype)
        return (size * values[..., :1].sign()).expand(values.shape).contiguous()
    if kind == "one-hot":
        return torch.zeros_like(values).scatter(-1, place, 1.0)
    if kind == "sorted":
        return values.abs().sort(dim=-1).values
    if kind == "shifted":
        lines = values.view(-1, values.shape[-1])
        far = torch.full((len(lines), 1), FAR.get(dtype, 128.0), dtype=values.dtype)
        far[int(torch.randint(0, 2, (1,), generator=random)) :: 2] *= -1
        return (lines + far).view(values.shape)
    if kind == "outlier":
        huge = HUGE.get(dtype, 2.0**17) * values.gather(-1, place).sign()
        return values.scatter(-1, place, huge)
    raise ValueError(f"unknown distribution {kind!r}")


# The kinds of rows that `mixed` has besides `outlier`, each about as often as the others. Not `large`: beside a row with one
# value, a number that float64 loses where it saturates (1 + tanh) would count in full.
ROWS = ("uniform", "equal", "one-hot", "sorted", "shifted", "tiny", "zeros", "normal")
# A single row is cut into pieces of this length, which count as rows.
PIECE = 1024


def mixed(values: torch.Tensor, dtype: torch.dtype, random: torch.Generator, share: tuple[int, int]) -> torch.Tensor:
    """Rows of all hard kinds, of the shape of some normal ones; with few rows, `outlier` is the kind that is never missing.

    `share` is a remainder and a divisor: the other rows are hard in another input, and normal here. Two huge values that
    meet in one row may cancel, and samples of what float32 loses do not always show that.
    """
    made = values.clone()
    rows = made.view(-1, made.shape[-1])
    if len(rows) == 1 and made.numel() >= 2 * PIECE:
        rows = made.view(-1)[: made.numel() // PIECE * PIECE].view(-1, PIECE)
    order = cast("list[int]", torch.randperm(len(ROWS), generator=random).tolist())
    kinds = ["outlier", *(ROWS[place] for place in order)]
    own = torch.arange(len(rows))[share[0] :: share[1]]
    of_row = torch.full((len(rows),), len(kinds))
    of_row[own] = torch.randperm(len(own), generator=random) % len(kinds)
    for number, kind in enumerate(kinds):
        chosen = (of_row == number).nonzero().view(-1)
        if not len(chosen) or kind == "normal":
            continue
        normal = rows[chosen]
        if kind == "zeros":
            rows[chosen] = 0
        else:
            rows[chosen] = hard(kind, normal, dtype, random)
    return made


def rows_of(tensor: TensorSpec) -> int:
    """Lines of the last axis of a tensor that is passed; none of one that is no floating-point tensor."""
    if tensor.omitted or not DTYPES[tensor.dtype].is_floating_point:
        return 0
    rows = 1
    for length in tensor.shape[:-1]:
        rows *= length
    return rows


def mixed_inputs(case: OracleCase) -> list[int]:
    """The places of the inputs that have rows of different kinds where `mixed` is asked for: those with the most rows, and
    of several single rows the longest. The others stay normal, so that no single row of zeros hides all of the others."""
    counts = [rows_of(tensor) for tensor in case.inputs]
    if max(counts) > 1:
        return [place for place, count in enumerate(counts) if count == max(counts)]
    lengths = [count and (tensor.shape or [1])[-1] for count, tensor in zip(counts, case.inputs)]
    return [lengths.index(max(lengths))]


def spoil(inputs: list[torch.Tensor | None], random: torch.Generator) -> None:
    """Put an infinity, NaN and the other infinity into a few rows of the largest input; one row at least stays finite
    where there are several. Formats without infinities get NaN."""
    floating = [one for one in inputs if one is not None and one.is_floating_point() and one.numel()]
    if not floating:
        return
    chosen = max(floating, key=torch.numel)
    length = chosen.shape[-1] if chosen.dim() else 1
    rows = chosen.numel() // length
    start = int(torch.randint(0, 3, (1,), generator=random))
    spoiled = torch.randperm(rows, generator=random)[: max(1, min(3, rows - 1))]
    for turn, row in enumerate(cast("list[int]", spoiled.tolist())):
        column = int(torch.randint(0, length, (1,), generator=random))
        value = (float("inf"), float("nan"), float("-inf"))[(start + turn) % 3]
        chosen.view(-1)[row * length + column] = float("nan") if chosen.dtype == torch.float8_e4m3fn else value


def edit_one(tensor: torch.Tensor, random: torch.Generator) -> None:
    """Change one element at a random place, in sign and by 3 at least, which no rounding undoes."""
    if tensor.numel() == 0:
        return
    flat = tensor.view(-1)
    place = int(torch.randint(0, flat.numel(), (1,), generator=random))
    old = flat[place]
    if tensor.dtype == torch.bool:
        flat[place] = ~old
    elif tensor.dtype.is_floating_point:
        wide = old.to(torch.float64)
        flat[place] = rounded(-wide - 3 if wide >= 0 else 3 - wide, tensor.dtype)
    else:
        flat[place] = 1 - old


def shuffled(tensor: torch.Tensor, dimension: int, random: torch.Generator) -> torch.Tensor:
    """Every line along `dimension` in an order of its own."""
    return tensor.gather(dimension, torch.rand(tensor.shape, generator=random).argsort(dimension))
