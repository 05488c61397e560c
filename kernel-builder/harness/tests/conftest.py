"""Messages as the judge sends them, for the tests.

Run by `cargo xtask ci harness`, with torch; without it the tests that need it are skipped.
"""

from __future__ import annotations

import sys

from protocol import TensorSpec
from protocol_verify import GradientSpec, InputSet, OracleCase, OracleJob

# The harness writes no bytecode beside itself.
sys.dont_write_bytecode = True


def tensor(name: str, shape: list[int], dtype: str = "f32", **more: object) -> TensorSpec:
    """A tensor of a call."""
    fields = {"omitted": False, "inplace": None, "computed": None} | more
    return TensorSpec(name=name, shape=shape, dtype=dtype, **fields)  # type: ignore[arg-type]


def input_set(**more: object) -> InputSet:
    """Normal values, but for what is given."""
    usual = {
        "kind": "normal",
        "edit_of": None,
        "edit_input": None,
        "change": None,
        "scalars": {},
        "baseline": False,
        "gradient": False,
        "hard": False,
    }
    return InputSet(**(usual | more))  # type: ignore[arg-type]


def oracle_case(
    inputs: list[TensorSpec],
    outputs: list[TensorSpec],
    sets: list[InputSet],
    gradients: list[GradientSpec] | None = None,
) -> OracleCase:
    """A case of the schedule."""
    return OracleCase(id="case", place=0, inputs=inputs, outputs=outputs, gradients=gradients or [], sets=sets)


def oracle_job(folder: str, reference: str, cases: list[OracleCase], **more: object) -> OracleJob:
    """The job of an oracle that works in a folder."""
    usual = {
        "seed": 7,
        "threads": 1,
        "behind": False,
        "on_gpu": False,
        "reference": reference,
        "function": "reference",
        "gradient": None,
        "gate": f"{folder}/oracle.gate",
        "inputs_dir": folder,
        "expected_dir": folder,
        "cases": cases,
    }
    return OracleJob(**(usual | more))  # type: ignore[arg-type]
