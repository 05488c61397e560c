"""The job of `trace.py`: a person's file, and the operations of the templates that it is compared with.

Written by `cargo xtask codegen` from kernel-builder/src/protocol; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from protocol import Scalar

# The kind of a number.
Kind: TypeAlias = Literal["float", "int", "bool"]


@dataclass(frozen=True)
class TraceJob:
    """Compares functions of a file with the calls that templates serve."""

    # The path of the person's file.
    file: str
    # The functions and classes, one report each; the only public one for `None`.
    names: list[str | None]
    threads: int
    # Whether functions that no template is near to are exported for their translation.
    translates: bool
    templates: list[TemplateJob]


@dataclass(frozen=True)
class TemplateJob:
    """A template with its operation."""

    name: str
    # The path of the template's reference file.
    reference: str
    # The reference function.
    function: str
    op: Operation
    # Every form of a call.
    forms: list[Form]


@dataclass(frozen=True)
class Operation:
    """What op.toml says of calls."""

    axes: list[Axis]
    inputs: list[Input]
    scalars: list[ScalarArgument]
    # Names of the outputs.
    outputs: list[str]
    # For each output that overwrites an input, the input.
    overwrites: dict[str, str]
    # Inputs that the result of the kernel has a gradient of.
    gradients: list[str]
    # Conditions on axes and scalars, as op.toml has them.
    constraints: list[str]


@dataclass(frozen=True)
class Axis:
    """An axis and its lengths."""

    name: str
    # The one length of a constant axis.
    fixed: int | None
    multiple_of: int
    min: int | None


@dataclass(frozen=True)
class Input:
    """An input of an operation."""

    name: str
    # The axes.
    shape: list[str]
    kind: Kind
    # The axis along which its values are places.
    counts: str | None
    # The scalar whose value is no place.
    ignored: str | None


@dataclass(frozen=True)
class ScalarArgument:
    """A scalar argument of an operation."""

    name: str
    kind: Kind
    default: Scalar


@dataclass(frozen=True)
class Form:
    """How a call of an operation is written."""

    # The arguments: Python expressions over the operation's inputs, axes, scalars and `torch`.
    arguments: list[str]
    # The results: expressions over the outputs, too; the outputs themselves if absent.
    results: list[str] | None
    # Scalars that have one value in this form.
    scalars: dict[str, Scalar]
    # Optional inputs that this form does not have.
    without: list[str]
    # Values of inputs that such a call does not have: expressions over the axes and `torch`.
    given: dict[str, str]
    # Axes whose lengths must be multiples of a number.
    multiples: dict[str, int]
