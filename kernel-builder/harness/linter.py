"""The linter's process: what the reference computes in float64 at many sets of inputs.

Owns: the device that the reference runs on. Never: judges whether a task is sound, and never meets a candidate.
"""

import os

import torch

from channel import Channel, environment
from oracle import (
    cast,
    change_inputs,
    compute_inputs,
    draw_inputs,
    expect,
    generator,
    load_reference,
    makers,
    terms_of_short_rows,
)
from tensors import write_tensors


def moved(tensors: list, device: str) -> list:
    """Tensors on a device; `None` stays."""
    return [None if one is None else one.to(device) for one in tensors]


def write_set(job: dict, function, case: dict, number: int) -> None:
    """Write the inputs of one set in float64, and after them what the reference makes of them.

    Float64 holds every value of the narrower dtypes, and what is done to whole inputs is not rounded to these.
    """
    chosen = case["sets"][number]
    scalars = chosen["scalars"]
    inputs = cast(draw_inputs(job["seed"], case, number), torch.float64)
    changed = chosen.get("change", {}).get("input")
    # A computed input that is changed itself is computed before that; else it follows what others were changed to.
    of_computed = changed is not None and case["inputs"][changed].get("computed") is not None
    if of_computed:
        compute_inputs(inputs, job, case, scalars)
    change_inputs(inputs, job["seed"], case, number)
    if not of_computed:
        compute_inputs(inputs, job, case, scalars)
    expected = moved(expect(function, case, moved(inputs, job["device"]), scalars), "cpu")
    path = os.path.join(job["values_dir"], f"{case['place']}-{number}")
    if not chosen["plain"]:
        write_tensors(f"{path}.bin", expected)
        return
    random = generator(job["seed"], case["id"], number, "terms")
    terms = terms_of_short_rows(function, case, expected, inputs, scalars, random, chosen["hard"])
    write_tensors(f"{path}.inputs.bin", [one.to(torch.float64) for one in inputs if one is not None])
    write_tensors(f"{path}.bin", [*expected, *terms])


def play(job: dict, channel: Channel) -> None:
    """Compute every set of every case; a case is told when all its files are there."""
    torch.set_num_threads(job["threads"])
    channel.send("environment", **environment("cpu"))
    try:
        function = load_reference(job["reference"], job["function"])
        job["makers"] = makers(job)
    except Exception as error:  # any failure of the project's own code is told, not raised
        channel.send("no-reference", error=f"{type(error).__name__}: {error}")
        channel.send("done")
        return
    for case in job["cases"]:
        try:
            for number in range(len(case["sets"])):
                write_set(job, function, case, number)
        except Exception as error:  # any failure of the project's own code is told, not raised
            channel.send("no-reference", case=case["place"], error=f"{type(error).__name__}: {error}")
            continue
        channel.send("case", case=case["place"])
    channel.send("done")
