"""Calls of a template's operation: how many elements their inputs may have."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from calls import MOST_ELEMENTS, Reference
from protocol_trace import Axis, Form, Input, Operation, TemplateJob


def reference(folder: Path, *inputs: Input) -> Reference:
    """The reference of an operation on these inputs."""
    path = folder / "reference.py"
    path.write_text("def reference(*tensors):\n    return tensors[0]\n", encoding="utf-8")
    axes = [Axis(name=name, fixed=None, min=None, multiple_of=1) for name in ("rows", "columns")]
    op = Operation(
        axes=axes, inputs=list(inputs), scalars=[], outputs=["out"], overwrites={}, gradients=[], constraints=[]
    )
    return Reference(torch, TemplateJob(name="t", reference=str(path), function="reference", op=op, forms=[]))


def test_inputs_have_no_more_elements_than_the_limit(tmp_path: Path) -> None:
    plain = Form(arguments=["x", "y"], results=None, scalars={}, without=[], given={}, multiples={})
    inputs = [Input(name=name, shape=["rows", "columns"], kind="float", counts=None, ignored=None) for name in "xy"]
    both = reference(tmp_path, *inputs)
    # All inputs count, not each of them alone.
    most = {"rows": MOST_ELEMENTS // 2048, "columns": 1024}
    drawn = both.inputs(plain, most, "normal", {}, 0)
    assert [tuple(one.shape) for one in drawn.values() if one is not None] == [tuple(most.values())] * 2
    with pytest.raises(ValueError, match=f"inputs of {MOST_ELEMENTS + 2048} elements are too many to compare"):
        both.inputs(plain, most | {"rows": most["rows"] + 1}, "normal", {}, 0)
    alone = reference(tmp_path, inputs[0])
    assert alone.inputs(plain, {"rows": 1, "columns": MOST_ELEMENTS}, "normal", {}, 0)["x"] is not None
