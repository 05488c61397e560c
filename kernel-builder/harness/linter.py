"""The linter's process: what the reference computes in float64 at many sets of inputs.

Owns: the device that the reference runs on. Never: judges whether a task is sound, and never meets a candidate.
"""

from __future__ import annotations

import os

import torch

from casting import cast
from channel import Channel, python_version
from inputs import Function, change_inputs, compute_inputs, draw_inputs, generator, makers_of
from oracle import expect, moved, on_host, terms_of_short_rows
from protocol_verify import Computed, Done, LinterCase, LinterJob, NoReference, Reverse, Started
from sources import module_of
from tensors import write_tensors


def write_set(job: LinterJob, function: Function, makers: dict[str, Function], linted: LinterCase, number: int) -> None:
    """Write the inputs of one set in float64, and after them what the reference makes of them.

    Float64 holds every value of the narrower dtypes, and what is done to whole inputs is not rounded to these.
    """
    case = linted.case
    chosen = case.sets[number]
    scalars = chosen.scalars
    inputs = cast(draw_inputs(job.seed, case, number), torch.float64)
    changed = None if chosen.change is None or isinstance(chosen.change, Reverse) else chosen.change.input
    # A computed input that is changed itself is computed before that; else it follows what others were changed to.
    of_computed = changed is not None and case.inputs[changed].computed is not None
    if of_computed:
        compute_inputs(inputs, makers, case, scalars)
    change_inputs(inputs, job.seed, case, number)
    if not of_computed:
        compute_inputs(inputs, makers, case, scalars)
    expected = on_host(expect(function, case, moved(inputs, job.device), scalars))
    path = os.path.join(job.values_dir, f"{case.place}-{number}")
    if not linted.plain[number]:
        write_tensors(f"{path}.bin", expected)
        return
    random = generator(job.seed, case.id, number, "terms")
    terms = terms_of_short_rows(function, case, expected, inputs, scalars, random, chosen.hard)
    write_tensors(f"{path}.inputs.bin", [one.to(torch.float64) for one in inputs if one is not None])
    write_tensors(f"{path}.bin", [*expected, *terms])


def play(job: LinterJob, channel: Channel) -> None:
    """Compute every set of every case; a case is told when all its files are there."""
    torch.set_num_threads(job.threads)
    channel.send(Started(torch=torch.__version__, python=python_version()))
    try:
        reference = module_of(job.reference, "reference")
        function = getattr(reference, job.function)
        makers = makers_of(reference, [linted.case for linted in job.cases])
    except Exception as error:  # any failure of the project's own code is told, not raised
        channel.send(NoReference(case=None, error=f"{type(error).__name__}: {error}"))
        channel.send(Done(opened=[]))
        return
    for linted in job.cases:
        case = linted.case
        try:
            for number in range(len(case.sets)):
                write_set(job, function, makers, linted, number)
        except Exception as error:  # any failure of the project's own code is told, not raised
            channel.send(NoReference(case=case.place, error=f"{type(error).__name__}: {error}"))
            continue
        channel.send(Computed(case=case.place))
    channel.send(Done(opened=[]))
