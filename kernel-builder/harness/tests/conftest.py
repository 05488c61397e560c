"""Messages as the judge sends them, for the tests.

Run by `cargo xtask ci harness`, with torch; without it the tests that need it are skipped.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from protocol import Dtype, SourceText, TensorSpec
from protocol_verify import GradientSpec, InputSet, OracleCase, OracleJob

# The harness writes no bytecode beside itself.
sys.dont_write_bytecode = True


def tensor(name: str, shape: list[int], dtype: Dtype = "f32", **more: Any) -> TensorSpec:
    """A tensor of a call."""
    plain = TensorSpec(
        name=name, shape=shape, dtype=dtype, omitted=False, inplace=None, computed=None, seed=False, non_negative=False
    )
    return replace(plain, **more)


def input_set(**more: Any) -> InputSet:
    """Normal values, but for the fields that are given."""
    plain = InputSet(
        kind="normal",
        edit_of=None,
        edit_input=None,
        change=None,
        scalars={},
        baseline=False,
        gradient=False,
        hard=False,
    )
    return replace(plain, **more)


def oracle_case(
    inputs: list[TensorSpec],
    outputs: list[TensorSpec],
    sets: list[InputSet],
    gradients: list[GradientSpec] | None = None,
) -> OracleCase:
    """A case of the schedule."""
    return OracleCase(
        id="case", place=0, inputs=inputs, outputs=outputs, gradients=gradients or [], explained=[], sets=sets
    )


def oracle_job(folder: str, reference: SourceText, cases: list[OracleCase], **more: Any) -> OracleJob:
    """The job of an oracle that works in a folder."""
    plain = OracleJob(
        seed=7,
        threads=1,
        behind=False,
        on_gpu=False,
        reference=reference,
        function="reference",
        gradient=None,
        gate=f"{folder}/oracle.gate",
        inputs_dir=folder,
        expected_dir=folder,
        cases=cases,
    )
    return replace(plain, **more)
