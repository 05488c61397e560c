"""Strict decoding: what is missing, unknown or of another type is an error that names it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import input_set, oracle_case, oracle_job, tensor

import wire
from protocol import VERSION, SourceText
from protocol_bench import BlockRequest, Judged
from protocol_bench import Request as BenchRequest
from protocol_verify import Event, InputsReady, Job, OracleJob, Reverse, Scale
from wire import ProtocolError, decode, encode, opening


def job() -> OracleJob:
    """A job with each kind of field."""
    sets = [
        input_set(scalars={"eps": 1e-6, "causal": True, "axis": 2}),
        input_set(edit_of=0, change=Scale(input=0, by=4.0)),
        input_set(edit_of=0, change=Reverse(places=[(0, 1), (1, 0)])),
    ]
    reference = SourceText(file="/r.py", text="")
    return oracle_job("/f", reference, [oracle_case([tensor("x", [2, 3])], [tensor("y", [2, 3])], sets)])


def first_message(**changes: object) -> dict[str, Any]:
    """The first message of a dialogue."""
    return {"protocol": VERSION, "nonce": "n", "job": encode(job())} | changes


def test_what_is_encoded_is_decoded_again():
    assert opening(json.dumps(first_message()), Job) == ("n", job())
    block = BlockRequest(
        contender=None, regime="host", calls=3, first=0, seed=2**64 - 1, edits=[(0, 5), (2, 9)], aim="sample"
    )
    assert decode(BenchRequest, json.loads(json.dumps(encode(block))), "request") == block


def test_an_event_is_a_line_with_its_tag_and_the_nonce():
    assert json.loads(wire.line("n", InputsReady())) == {"nonce": "n", "event": "inputs-ready"}
    assert json.loads(wire.line("n", Judged(wrong=None))) == {"nonce": "n", "event": "judged", "wrong": None}
    assert decode(Event, {"event": "inputs-ready"}, "event") == InputsReady()


@pytest.mark.parametrize("version", [VERSION + 1, None, str(VERSION)])
def test_another_version_is_refused_before_anything_else_is_read(version: object):
    message = {"protocol": version, "whatever": 1}
    with pytest.raises(
        ProtocolError, match=f"speaks version {version} of the protocol, and its harness version {VERSION}"
    ):
        opening(json.dumps(message), Job)


def changed(path: str, value: object) -> dict[str, Any]:
    """The first message with another value at a path; `...` removes it."""
    message = first_message()
    *parents, last = path.split(".")
    place: Any = message
    for part in parents:
        place = place[int(part)] if part.isdecimal() else place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return message


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        ("job.seed", ..., "job has no field `seed`"),
        ("job.sead", 1, "job has the unknown field `sead`"),
        ("job.seed", "7", "job.seed is a str, not a int"),
        ("job.seed", True, "job.seed is a bool, not a int"),
        ("job.behind", 1, "job.behind is a int, not a bool"),
        ("job.role", "judge", "job.role is 'judge', none of oracle, candidate, linter"),
        ("job.role", ..., "job has no field `role`"),
        ("job.cases", None, "job.cases is a NoneType, not a list"),
        ("job.cases.0.inputs.0.dtype", "f128", r"job.cases\[0\].inputs\[0\].dtype is 'f128', none of bf16, "),
        ("job.cases.0.sets.0.scalars.eps", "small", r"scalars.eps is a str, none of bool, int, float"),
        ("job.cases.0.sets.1.change.by", ..., r"job.cases\[0\].sets\[1\].change has no field `by`"),
        (
            "job.cases.0.sets.1.change.what",
            "melt",
            "change.what is 'melt', none of redraw, shuffle, reverse, scale, shift",
        ),
        ("job.cases.0.sets.2.change.places", [[1]], r"places\[0\] has 1 elements, not 2"),
        ("nonce", 3, "nonce is a int, not a str"),
        ("more", 3, r"the first message has the fields \['job', 'more', 'nonce'\], not job and nonce"),
    ],
)
def test_an_error_names_the_field(path: str, value: object, error: str):
    with pytest.raises(ProtocolError, match=error):
        opening(json.dumps(changed(path, value)), Job)


def test_an_integer_is_a_float_where_one_is_wanted():
    found = decode(Scale, {"what": "scale", "input": 0, "by": 4}, "change")
    assert found == Scale(input=0, by=4.0)
    assert type(found.by) is float
