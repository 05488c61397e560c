"""Holds a person's reference against what templates serve: which of their calls it can be, and how far the results are.

Owns: the job and the report. Never: decides what fits; it says what it saw.

One job as JSON on standard input; for each of its names a report on standard output, a line of JSON, and before it a line
`{"doing": ...}` for each step. An attempt is a
form of a template (how a call of its operation is written), an order of the person's parameters, and values for the
numbers. One that is far off at the first inputs is not tried on more.
"""

from __future__ import annotations

import json
import math
import os
import site
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from torch import Tensor

    from protocol_trace import TraceJob
    from subject import Subject


def guessed(torch: ModuleType, subject: Subject) -> tuple[dict[str, Any] | None, str | None]:
    """A graph of the function alone, with the example inputs or simple ones; the error where it has none."""
    subject.resize(16)
    slots = subject.slots()
    examples = subject.example_values
    needed = [one for one in slots if not one.optional or one.name in examples]
    from graphs import graph_of

    error = "nothing was tried"
    for rank in ((2, 1), (2, 2), (3, 1), (3, 3), (3, 2), (1, 1), (4, 4)):
        shape = {1: [16], 2: [6, 16], 3: [2, 6, 16], 4: [2, 3, 6, 16]}
        tensors: list[Tensor] = []
        for place, one in enumerate(needed):
            known = examples.get(one.name, subject.state.get(one.name))
            value = torch.randn(shape[rank[0] if place == 0 else rank[1]])
            tensors.append(known if isinstance(known, torch.Tensor) else value)
        numbers = {
            one.name: {"float": 1e-6, "int": 1, "bool": False}[one.kind]
            for one in subject.parameters
            if one.kind in ("float", "int", "bool") and one.value is None
        }
        try:
            return graph_of(torch, subject.callable([one.name for one in needed], numbers), tensors), None
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"[:600]
    return None, error


def finite(value: Any) -> float | None:
    """A number that JSON has; None for anything else."""
    return value if isinstance(value, (bool, int, float)) and math.isfinite(value) else None


def report(torch: ModuleType, job: TraceJob, name: str | None, doing: Callable[[str], None]) -> dict[str, Any]:
    """Everything that was seen of one function or class. `doing` reports each step."""
    from attempts import Attempts
    from calls import FAR, FLOATS, NEAR, Reference
    from loading import Unusable
    from subject import Subject

    FLOATS.update({torch.float32: None, torch.bfloat16: None, torch.float16: None})
    doing("making its example")
    try:
        subject = Subject(job.file, name)
    except Unusable as problem:
        return problem.report()
    except Exception as problem:
        return Unusable(f"a call of it cannot be prepared: {type(problem).__name__}: {problem}"[:600]).report()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    doing("comparing it with templates")
    attempts = Attempts(torch, subject)
    tried: list[dict[str, Any]] = []
    for template in job.templates:
        reference = Reference(torch, template)
        for number, form in enumerate(reference.forms):
            for trial in attempts.of(reference, form):
                trial |= {"template": reference.name, "form": number}
                if trial.get("deviation", FAR) < NEAR:
                    trial["facts"] = attempts.prove(reference, form, trial)
                tried.append(trial)
    known: dict[str, list[str]] = {}
    near = any("facts" in one for one in tried)
    torch.set_default_dtype(torch.float32)
    translated: dict[str, Any] = {"translation": None, "untranslated": None}
    if job.translates and not near:
        from translation import translation

        subject.resize(16)
        translated = dict(translation(subject, doing))
    # What is near is of interest where there is neither; exporting every template's reference takes most of the time.
    looked = not near and translated["translation"] is None
    graph, error = guessed(torch, subject) if looked else (None, None)
    if looked:
        for template in job.templates:
            reference = Reference(torch, template)
            numbers = {one.name: ("is", one.default) for one in reference.op.scalars}
            trial = {"numbers": numbers, "changed": {}}
            known[reference.name] = attempts.template_ops(reference, reference.forms[0], trial)
    return {
        "torch": torch.__version__,
        "name": subject.name,
        "module": subject.is_module,
        "parameters": [
            {"name": one.name, "kind": one.kind, "optional": one.optional, "value": finite(one.value)}
            for one in subject.parameters
        ],
        "state": list(subject.state),
        "example": bool(subject.example_values),
        "attempts": tried,
        "graph": graph,
        "error": error,
        "template_ops": known,
        **translated,
    }


def main() -> None:
    """Take the job, keep what the person's file prints away from the answer."""
    answer = os.dup(1)
    os.dup2(2, 1)
    text = sys.stdin.buffer.read()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.dont_write_bytecode = True
    managed = os.environ.pop("KERNELWRIGHT_SITE", None)
    if managed:
        site.addsitedir(managed)
    sys.path[:0] = filter(None, os.environ.pop("KERNELWRIGHT_BESIDE", "").split(":"))
    import torch

    from protocol_trace import TraceJob
    from wire import opening

    _, job = opening(text, TraceJob)
    torch.set_num_threads(job.threads)
    with os.fdopen(answer, "w") as out:

        def send(line: dict[str, Any]) -> None:
            out.write(json.dumps(line) + "\n")
            out.flush()

        for name in job.names:
            send(report(torch, job, name, lambda step: send({"doing": step})))


if __name__ == "__main__":
    main()
