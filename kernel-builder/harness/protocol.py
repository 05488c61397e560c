"""Types that several dialogues with the judge share, and the version of all.

Written by `cargo xtask codegen` from kernel-builder/src/protocol; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

VERSION = 1

# The element type of a tensor.
Dtype: TypeAlias = Literal["bf16", "f16", "f32", "f64", "f8e4m3", "f8e5m2", "i8", "i16", "i32", "i64", "bool"]

# A scalar argument.
Scalar: TypeAlias = bool | int | float

# The attribute of `torch` for each dtype.
TORCH_NAMES: dict[Dtype, str] = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "bool": "bool",
}


@dataclass(frozen=True)
class SourceText:
    """A Python file as it was read before a candidate ran; a process runs this text, not the file."""

    # The path of the file, for messages.
    file: str
    # The contents of the file.
    text: str


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of a call."""

    # The argument.
    name: str
    # Elements per dimension, outermost first.
    shape: list[int]
    # The element type.
    dtype: Dtype
    # Whether `None` is passed for this input.
    omitted: bool
    # For an output: the place of the input that it overwrites.
    inplace: int | None
    # For an input: the function of the reference file that computes it from the others.
    computed: str | None
    # For an input: whether it is a seed, which may be any number of 64 bits.
    seed: bool
    # For an input: whether no value is less than zero.
    non_negative: bool
