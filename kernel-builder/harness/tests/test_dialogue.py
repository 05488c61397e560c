"""Whole processes: the oracle and a candidate beside it, as the judge starts them."""

from __future__ import annotations

import importlib.util
import json
import os
import py_compile
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="no torch: dialogues run with it in `cargo xtask ci harness`")

from conftest import input_set, oracle_case, oracle_job, tensor  # noqa: E402

from protocol import VERSION, SourceText  # noqa: E402
from protocol_verify import (  # noqa: E402
    CandidateCase,
    CandidateJob,
    CandidateSet,
    Event,
    LinterCase,
    LinterJob,
    Schedule,
    Trial,
)
from wire import decode, encode  # noqa: E402

HARNESS = Path(__file__).parent.parent
INPUTS = [tensor("x", [4, 8])]
OUTPUTS = [tensor("y", [4, 8])]


def play(job: Any, version: int = VERSION) -> tuple[list[Any], str, int]:
    """The events of a role, its error output and its status."""
    message = {"protocol": version, "nonce": "secret", "job": encode(job)}
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, str(HARNESS / "main.py")],
        input=json.dumps(message),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=100,
    )
    events: list[Any] = []
    for line in done.stdout.splitlines():
        fields = json.loads(line)
        assert fields.pop("nonce") == "secret"
        events.append(decode(Event, fields, "event"))
    return events, done.stderr, done.returncode


def names(events: list[Any]) -> list[str]:
    """The tags of events."""
    return [event.TAG[1] for event in events]


def trial(number: int, **more: Any) -> Trial:
    """A call of the schedule."""
    plain = Trial(
        id=number,
        set=0,
        form="functional",
        poison=0xFF,
        arena="main",
        guard=4096,
        shift=0,
        strides={},
        calls=1,
        manner="single",
        input=None,
    )
    return replace(plain, **more)


def oracle_of(folder: Path, reference: str, **more: Any) -> Any:
    """The oracle of two sets, which does not wait for a candidate."""
    (folder / "oracle.gate").write_text("go")
    for name in ("inputs", "expected"):
        (folder / name).mkdir()
    folders = {"inputs_dir": str(folder / "inputs"), "expected_dir": str(folder / "expected")}
    case = oracle_case(INPUTS, OUTPUTS, [input_set(baseline=True), input_set(edit_of=0, edit_input=0)])
    return oracle_job(str(folder), source_of(folder, reference), [case], **folders, **more)


def source_of(folder: Path, text: str) -> SourceText:
    """A reference whose file, and the bytecode beside it, were changed after the judge had read it."""
    file = folder / "reference.py"
    file.write_text("raise RuntimeError('the file was read')\n")
    bytecode = Path(importlib.util.cache_from_source(str(file)))
    bytecode.parent.mkdir(exist_ok=True)
    py_compile.compile(str(file), str(bytecode), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    return SourceText(file=str(file), text=text)


def candidate_of(folder: Path, package: str, trials: list[Trial]) -> CandidateJob:
    """A candidate with a schedule, whose inputs the oracle has written."""
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text(package)
    for gate in ("begin.gate", "candidate.gate"):
        (folder / gate).write_text("go")
    (folder / "dumps").mkdir()
    sets = [CandidateSet(scalars={}), CandidateSet(scalars={})]
    case = CandidateCase(place=0, inputs=INPUTS, outputs=OUTPUTS, gradients=[], sets=sets, trials=trials)
    schedule = Schedule(
        out=["out"],
        begin=str(folder / "begin.gate"),
        gate=str(folder / "candidate.gate"),
        inputs_dir=str(folder / "inputs"),
        dumps_dir=str(folder / "dumps"),
        cases=[case],
    )
    return CandidateJob(
        package=str(folder / "package"),
        namespace="_package",
        function="double",
        device="cpu",
        threads=1,
        home=None,
        schedule=schedule,
    )


def test_the_oracle_writes_inputs_then_what_it_expects(tmp_path: Path):
    job = oracle_of(tmp_path, "def reference(x):\n    return x * 2\n")
    events, errors, status = play(job)
    assert names(events) == ["started", "inputs-ready", "expected", "expected", "done"], errors
    assert status == 0
    assert [event.baseline for event in events[2:4]] == [True, False]
    inputs, expected, eager = (
        torch.frombuffer(bytearray((tmp_path / name).read_bytes()), dtype=dtype)
        for name, dtype in (
            ("inputs/0-0.bin", torch.float32),
            ("expected/0-0.bin", torch.float64),
            ("expected/0-0.eager.bin", torch.float32),
        )
    )
    assert torch.equal(eager, inputs * 2) and torch.equal(expected[: inputs.numel()], inputs.double() * 2)


def test_the_oracle_imports_nothing_from_a_folder_that_a_candidate_knows(tmp_path: Path):
    look = (
        "from importlib.machinery import PathFinder\ndef reference(x):\n    assert not PathFinder.find_spec('kept')\n"
    )
    events, errors, _ = play(oracle_of(tmp_path, f"{look}    return x * 2\n"))
    assert names(events)[-2:] == ["expected", "done"], (events, errors)


@pytest.mark.parametrize(
    ("reference", "case", "error"),
    [
        ("import nowhere\n", None, "ModuleNotFoundError: No module named 'nowhere'"),
        ("def reference(x):\n    raise TypeError('no')\n", 0, "TypeError: no"),
    ],
    ids=["import", "call"],
)
def test_a_reference_that_fails_is_an_event(tmp_path: Path, reference: str, case: int | None, error: str):
    events, _, status = play(oracle_of(tmp_path, reference))
    (failed, *_) = [event for event in events if event.TAG[1] == "no-reference"]
    assert (failed.case, failed.error, status) == (case, error, 0)
    assert names(events)[-1] == "done"


def test_the_linter_tells_of_every_case(tmp_path: Path):
    case = oracle_case(INPUTS, OUTPUTS, [input_set(), input_set(edit_of=0)])
    job = LinterJob(
        seed=7,
        threads=1,
        device="cpu",
        reference=source_of(tmp_path, "def reference(x):\n    return x * 2\n"),
        function="reference",
        values_dir=str(tmp_path),
        cases=[LinterCase(case=case, plain=[True, False])],
    )
    events, errors, _ = play(job)
    assert names(events) == ["started", "computed", "done"], errors
    assert (tmp_path / "0-0.inputs.bin").exists() and not (tmp_path / "0-1.inputs.bin").exists()


HONEST = "def double(x, out=None):\n    import torch\n    return torch.mul(x, 2, out=out)\n"


def test_a_candidate_makes_every_call_of_the_schedule(tmp_path: Path):
    play(oracle_of(tmp_path, "def reference(x):\n    return x * 2\n"))
    held = [trial(number, manner="held", set=number % 2) for number in (3, 4)]
    trials = [trial(0), trial(1, form="out", set=1), trial(2, calls=3), *held, trial(5, manner="read-only", input=0)]
    events, errors, status = play(candidate_of(tmp_path, HONEST, trials))
    assert status == 0, errors
    assert names(events)[0] == "loaded" and events[0].has_function and not events[0].operators
    ended = [event.trial for event in events if event.TAG[1] == "end"]
    assert ended == [0, 1, 2, 3, 4, 5], (events, errors)
    assert names(events)[-1] == "done"
    # Two guards and the payload of the output; the input is as it was passed, so it is left out.
    assert (tmp_path / "dumps" / "0.bin").stat().st_size == 4 * 8 * 4
    assert (tmp_path / "dumps" / "1.bin").stat().st_size == 2 * 4096 + 4 * 8 * 4


@pytest.mark.parametrize(
    ("package", "kind", "error"),
    [
        ("def double(x):\n    raise ValueError('no')\n", "raised", "ValueError: no"),
        ("def double(x):\n    return x, x\n", "malformed", "returned 2 values where op.toml has 1 output to return"),
        ("def double(x):\n    return x\n", "malformed", "returned a tensor that shares memory with an input"),
        (
            "import torch\ntorch.set_num_threads(2)\ndef double(x):\n    return x * 2\n",
            "settings",
            "the number of threads",
        ),
        ("import torch\ntorch.equal = print\ndef double(x):\n    return x * 2\n", "tampered", "torch.equal"),
    ],
    ids=["raises", "two", "alias", "settings", "patches"],
)
def test_a_failed_trial_says_how_it_failed(tmp_path: Path, package: str, kind: str, error: str):
    play(oracle_of(tmp_path, "def reference(x):\n    return x * 2\n"))
    events, errors, _ = play(candidate_of(tmp_path, package, [trial(0)]))
    failed = [event for event in events if event.TAG[1] == "failed"]
    assert len(failed) == 1, (events, errors)
    assert (failed[0].trial, failed[0].kind) == (0, kind)
    assert error in failed[0].error


def test_a_package_that_does_not_import_is_an_event(tmp_path: Path):
    events, _, _ = play(candidate_of(tmp_path, "import nowhere\n", []))
    assert names(events) == ["load-failed"] and "No module named 'nowhere'" in events[0].error


def test_a_judge_of_another_version_is_told_so(tmp_path: Path):
    events, errors, status = play(oracle_of(tmp_path, ""), version=VERSION + 1)
    assert events == [] and status != 0
    assert f"the judge speaks version {VERSION + 1} of the protocol, and its harness version {VERSION}" in errors
