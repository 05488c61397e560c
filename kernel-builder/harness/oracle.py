"""The oracle: makes the inputs, and later the expected results in float64.

Owns: the secret seed, the reference. Never: shares a process with a candidate, and never writes an expected value before
the judge has seen the candidate's process end.
"""

import hashlib
import importlib.util
import os

import torch

from channel import Channel, environment, wait_for
from tensors import DTYPES, write_tensors


def load_reference(path: str, name: str):
    """The function `name` of the project's reference file."""
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def generator(seed: int, *place: object) -> torch.Generator:
    """Random numbers for one place of the schedule; the seed is known to this process and the judge alone."""
    text = "/".join(str(part) for part in (seed, *place))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")
    return torch.Generator().manual_seed(number)


def distribution(kind: str, shape: list[int], dtype: torch.dtype, random: torch.Generator) -> torch.Tensor:
    """One input; `kind` says how its values are distributed.

    `normal`: mean 0, deviation 1. `small`: deviation 1/1024. `large`: deviation 32 in float16, 1024 else. `sparse`:
    normal, nine of ten elements zero, and all of the first index of the first axis.
    """
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=random).to(dtype)
    if not dtype.is_floating_point:
        return torch.randint(0, 2, shape, generator=random, dtype=dtype)
    values = torch.randn(shape, generator=random, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    if kind == "small":
        values = values / 1024
    elif kind == "large":
        values = values * (32 if dtype == torch.float16 else 1024)
    elif kind == "sparse":
        keep = torch.rand(shape, generator=random) < 0.1
        values = torch.where(keep, values, torch.zeros_like(values))
        if values.dim() > 1 and values.shape[0] > 1:
            values[0] = 0
    return values.to(dtype)


def edit_one(tensor: torch.Tensor, random: torch.Generator) -> None:
    """Change one element at a random place, by more than a rounding."""
    if tensor.numel() == 0:
        return
    flat = tensor.view(-1)
    place = int(torch.randint(0, flat.numel(), (1,), generator=random))
    old = flat[place]
    flat[place] = ~old if tensor.dtype == torch.bool else (-old - 3 if tensor.dtype.is_floating_point else 1 - old)


def make_inputs(seed: int, case: dict, number: int) -> list[torch.Tensor]:
    """The inputs of one set of a case; the same call gives the same bytes."""
    chosen = case["sets"][number]
    source = chosen.get("edit_of", number)
    kind = case["sets"][source]["kind"]
    inputs = []
    for place, tensor in enumerate(case["inputs"]):
        random = generator(seed, case["id"], source, place)
        inputs.append(distribution(kind, tensor["shape"], DTYPES[tensor["dtype"]], random))
    if "edit_input" in chosen:
        edit_one(inputs[chosen["edit_input"]], generator(seed, case["id"], number, "edit"))
    return inputs


def results(function, inputs: list[torch.Tensor], scalars: dict) -> list[torch.Tensor]:
    """What a reference function returns, as a list."""
    with torch.no_grad():
        returned = function(*inputs, **scalars)
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def in_double(tensor: torch.Tensor) -> torch.Tensor:
    """A floating-point tensor in float64; other tensors as they are."""
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


def expect(function, case: dict, inputs: list[torch.Tensor], scalars: dict) -> list[torch.Tensor]:
    """The expected results in float64, checked against the shapes that op.toml declares."""
    expected = results(function, [in_double(tensor) for tensor in inputs], scalars)
    if len(expected) != len(case["outputs"]):
        raise ValueError(f"the reference returns {len(expected)} tensors, op.toml has {len(case['outputs'])} outputs")
    for tensor, output in zip(expected, case["outputs"]):
        if list(tensor.shape) != output["shape"]:
            raise ValueError(f"the reference returns the shape {list(tensor.shape)}, op.toml says {output['shape']}")
        if DTYPES[output["dtype"]].is_floating_point and tensor.dtype != torch.float64:
            raise ValueError(f"the reference returns {tensor.dtype} for float64 inputs; it must keep their precision")
    return [in_double(tensor).to(torch.float64) for tensor in expected]


def write_inputs(job: dict) -> None:
    """Write the inputs of every set."""
    for case in job["cases"]:
        for number in range(len(case["sets"])):
            path = os.path.join(job["inputs_dir"], f"{case['place']}-{number}.bin")
            write_tensors(path, make_inputs(job["seed"], case, number))


def write_expected(job: dict, channel: Channel) -> None:
    """Write the expected results of every set, and what PyTorch itself gets in the real dtype."""
    function = load_reference(job["reference"], job["function"])
    for case in job["cases"]:
        place = case["place"]
        for number, chosen in enumerate(case["sets"]):
            inputs = make_inputs(job["seed"], case, number)
            scalars = chosen["scalars"]
            try:
                expected = expect(function, case, inputs, scalars)
            except Exception as error:  # any failure of the project's own code is told, not raised
                channel.send("no-reference", case=place, set=number, error=f"{type(error).__name__}: {error}")
                continue
            write_tensors(os.path.join(job["expected_dir"], f"{place}-{number}.bin"), expected)
            baseline = False
            if chosen["baseline"]:
                path = os.path.join(job["expected_dir"], f"{place}-{number}.eager.bin")
                wanted = [DTYPES[output["dtype"]] for output in case["outputs"]]
                eager = results(function, inputs, scalars)
                baseline = [tensor.dtype for tensor in eager] == wanted
                if baseline:
                    write_tensors(path, eager)
            channel.send("expected", case=place, set=number, baseline=baseline)


def play(job: dict, channel: Channel) -> None:
    """Write inputs, wait for the judge, write expected results."""
    torch.set_num_threads(job["threads"])
    channel.send("environment", **environment("cpu"))
    write_inputs(job)
    channel.send("inputs-ready")
    if wait_for(job["gate"]) == "go":
        write_expected(job, channel)
    channel.send("done")
