"""The oracle: makes the inputs, and later the expected results in float64.

Owns: the secret seed, the reference. Never: shares a process with a candidate, and never writes an expected value before
the judge has opened its gate: when the candidate's process has ended, and at once where a candidate runs nothing on the
host.
"""

import hashlib
import importlib.util
import math
import os
import platform
from functools import cache

import torch

from channel import Channel, wait_for
from lanes import side_by_side
from tensors import DTYPES, digest_of, write_tensors
from values import distribution, edit_one, mixed_inputs, shuffled, spoil


def load_reference(path: str, name: str):
    """The function `name` of the project's reference file."""
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def generator(seed: int, *place: object, device: torch.device | str = "cpu") -> torch.Generator:
    """Random numbers for one place of the schedule; the seed is known to this process and the judge alone."""
    text = "/".join(str(part) for part in (seed, *place))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")
    return torch.Generator(device).manual_seed(number)


def draw_inputs(seed: int, case: dict, number: int) -> list[torch.Tensor | None]:
    """The inputs of one set of a case before anything is changed, `None` for one that is not passed."""
    source = case["sets"][number].get("edit_of", number)
    kind = case["sets"][source]["kind"]
    hard = mixed_inputs(case) if kind == "mixed" else []
    inputs = []
    for place, tensor in enumerate(case["inputs"]):
        random = generator(seed, case["id"], source, place)
        own, share = kind, (0, 1)
        if kind == "mixed":
            own, share = ("mixed", (hard.index(place), len(hard))) if place in hard else ("normal", share)
        dtype = DTYPES[tensor["dtype"]]
        inputs.append(None if tensor["omitted"] else distribution(own, tensor["shape"], dtype, random, share))
    if kind == "non-finite":
        spoil(inputs, generator(seed, case["id"], source, "spoil"))
    return inputs


def change_inputs(inputs: list[torch.Tensor | None], seed: int, case: dict, number: int) -> None:
    """Change whole inputs as the set says; see `Change` of the schedule. They may be in another dtype by now."""
    change = case["sets"][number].get("change")
    if change is None:
        return
    random = generator(seed, case["id"], number, "change")
    if change["what"] == "reverse":
        for place, dimension in change["places"]:
            inputs[place] = inputs[place].flip(dimension)
        return
    place = change["input"]
    old, tensor = inputs[place], case["inputs"][place]
    if change["what"] == "redraw":
        inputs[place] = distribution("normal", tensor["shape"], DTYPES[tensor["dtype"]], random).to(old.dtype)
    elif change["what"] == "shuffle":
        inputs[place] = shuffled(old, change["dimension"], random)
    elif change["what"] == "scale":
        inputs[place] = old * change["by"]
    elif change["what"] == "shift":
        inputs[place] = old + change["by"]
    else:
        raise ValueError(f"unknown change {change['what']!r}")


def makers(job: dict) -> dict:
    """The functions of the reference file that compute inputs, by name."""
    names = {tensor["computed"] for case in job["cases"] for tensor in case["inputs"] if tensor.get("computed")}
    return {name: load_reference(job["reference"], name) for name in names}


def compute_inputs(inputs: list[torch.Tensor | None], job: dict, case: dict, scalars: dict) -> None:
    """Put in what the project's functions compute of the other inputs, such as a result that was saved: in float64, then
    rounded to the dtype that the input has."""
    wide = None
    for place, (old, tensor) in enumerate(zip(inputs, case["inputs"])):
        if old is None or tensor.get("computed") is None:
            continue
        if wide is None:
            others = [None if other.get("computed") else one for one, other in zip(inputs, case["inputs"])]
            wide = cast(others, torch.float64)
        made = results(job["makers"][tensor["computed"]], wide, scalars)
        if len(made) != 1 or list(made[0].shape) != tensor["shape"]:
            shapes = ", ".join(str(list(one.shape)) for one in made)
            raise ValueError(f"`{tensor['computed']}` returns {shapes} for `{tensor['name']}`, which is {tensor['shape']}")
        inputs[place] = made[0].to(old.dtype)


def make_inputs(job: dict, case: dict, number: int) -> list[torch.Tensor | None]:
    """The inputs of one set of a case, `None` for one that is not passed; the same call gives the same bytes."""
    seed, chosen = job["seed"], case["sets"][number]
    inputs = draw_inputs(seed, case, number)
    change_inputs(inputs, seed, case, number)
    edited = chosen.get("edit_input")
    random = generator(seed, case["id"], number, "edit")
    if edited is not None and not case["inputs"][edited].get("computed"):
        edit_one(inputs[edited], random)
    compute_inputs(inputs, job, case, chosen["scalars"])
    if edited is not None and case["inputs"][edited].get("computed"):
        edit_one(inputs[edited], random)
    return inputs


def make_cotangents(seed: int, case: dict, number: int) -> list[torch.Tensor | None]:
    """What the gradient of each output is weighed with; `None` where an output has no gradient."""
    cotangents = []
    for place, output in enumerate(case["outputs"]):
        random, dtype = generator(seed, case["id"], number, "cotangent", place), DTYPES[output["dtype"]]
        cotangents.append(distribution("normal", output["shape"], dtype, random) if dtype.is_floating_point else None)
    return cotangents


def as_list(returned) -> list[torch.Tensor]:
    """What a function returned, as a list."""
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def results(function, inputs: list[torch.Tensor | None], scalars: dict) -> list[torch.Tensor]:
    """What a reference function returns, as a list."""
    with torch.no_grad():
        return as_list(function(*inputs, **scalars))


def cast(tensors: list, dtype: torch.dtype) -> list:
    """Floating-point tensors in `dtype`; anything else as it is."""
    return [one.to(dtype) if one is not None and one.is_floating_point() else one for one in tensors]


def expect(function, case: dict, inputs: list[torch.Tensor | None], scalars: dict) -> list[torch.Tensor]:
    """The expected results in float64, checked against the shapes that op.toml declares."""
    wide = cast(inputs, torch.float64)
    versions = [tensor is not None and tensor._version for tensor in wide]
    expected = results(function, wide, scalars)
    for tensor, version, declared in zip(wide, versions, case["inputs"]):
        if tensor is not None and tensor._version != version:
            raise ValueError(f"the reference writes to its input `{declared['name']}`; it must return new tensors only")
    if len(expected) != len(case["outputs"]):
        raise ValueError(f"the reference returns {len(expected)} tensors, op.toml has {len(case['outputs'])} outputs")
    for tensor, output in zip(expected, case["outputs"]):
        if list(tensor.shape) != output["shape"]:
            raise ValueError(f"the reference returns the shape {list(tensor.shape)}, op.toml says {output['shape']}")
        if DTYPES[output["dtype"]].is_floating_point and tensor.dtype != torch.float64:
            raise ValueError(f"the reference returns {tensor.dtype} for float64 inputs; it must keep their precision")
    return [tensor.to(torch.float64) for tensor in expected]


# How often the reference is computed in float32 to see what that arithmetic loses, at values this far apart, at least.
SAMPLES = 4
SAMPLES_OF_HARD = 2
APART = 2.0**-10
# So often where that costs next to nothing. Of elements whose terms all but cancel, four samples take one in 1,500 for
# more exact than it is, eight one in 16,000, and sixteen none of 200,000.
SAMPLES_OF_FEW = 32
# Elements to compute in all before samples are fewer than that.
COMPUTED = 2**20
# A row of fewer elements may be small by chance, and then does not show how large the terms of its elements are.
FEW = 32


def samples_of(samples: int, tensors: list) -> int:
    """How often to sample, `samples` at least, and more often where the largest of `tensors` is small."""
    elements = max(one.numel() for one in tensors if one is not None)
    return max(samples, min(SAMPLES_OF_FEW, COMPUTED // max(elements, 1)))


def terms_of(
    at, exact: list, inputs: list, places: list[int], random: torch.Generator, samples: int
) -> list[torch.Tensor]:
    """For each value, the size of the terms that it is made of, or 0 where that is not finite.

    Where terms cancel, the results do not show their size. It is taken from `at(inputs, dtype)` at some values near `inputs`, as
    the largest of two numbers. One is the error of float32, in units of its roundoff. The other is the change of the exact
    result, divided by `APART`: the same sum in another order is the exact sum of inputs that differ by some roundoffs (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2), and float32 may lose nothing where it adds two large
    inputs first.
    """
    terms = [torch.zeros_like(one) for one in exact]
    for _ in range(samples):
        near = cast(inputs, torch.float32)
        for place in places:
            noise = torch.randn(near[place].shape, generator=random, dtype=torch.float32, device=near[place].device)
            near[place] = noise.mul_(APART).add_(1).mul_(near[place])
        for size, here, right, rounded in zip(terms, exact, at(near, torch.float64), at(near, torch.float32)):
            # In place: fresh memory costs more here than arithmetic.
            lost = rounded.to(torch.float64).sub_(right).abs_().mul_(2.0**24)
            torch.maximum(size, lost.nan_to_num_(nan=0.0, posinf=0.0), out=size)
            changed = (right - here).abs_().mul_(1 / APART)
            torch.maximum(size, changed.nan_to_num_(nan=0.0, posinf=0.0), out=size)
    return terms


def terms_of_short_rows(
    function, case: dict, exact: list, inputs: list, scalars: dict, random: torch.Generator, hard: bool = False
) -> list[torch.Tensor]:
    """For each output the size of its terms, zero where rows are long enough to show it; nothing when all are.

    With `hard` values, or where an operation's terms cancel, no row shows it, however long.
    """

    def is_short(output: dict) -> bool:
        return DTYPES[output["dtype"]].is_floating_point and (hard or (output["shape"] or [1])[-1] < FEW)

    if not any(is_short(output) for output in case["outputs"]):
        return []

    def at(values: list, dtype: torch.dtype) -> list[torch.Tensor]:
        return results(function, cast(values, dtype), scalars)

    places = [place for place, one in enumerate(inputs) if one is not None and one.is_floating_point()]
    samples = samples_of(SAMPLES_OF_HARD if hard else SAMPLES, [*inputs, *exact])
    terms = terms_of(at, exact, inputs, places, random, samples)
    return [one if is_short(output) else torch.zeros_like(one) for one, output in zip(terms, case["outputs"])]


def gradients_of(function, own, places: list[int], inputs: list, weights: list, scalars: dict) -> list[torch.Tensor]:
    """Gradients in the dtype of `inputs`: by the project's function `own`, else by autograd of the reference."""
    if own is not None:
        return [tensor for tensor in results(own, [*weights, *inputs], scalars) if tensor is not None]
    inputs = list(inputs)
    for place in places:
        inputs[place] = inputs[place].detach().requires_grad_()
    with torch.enable_grad():
        outputs = as_list(function(*inputs, **scalars))
        projected = [(y, v) for y, v in zip(outputs, weights) if v is not None and y.requires_grad]
        if not projected:
            raise ValueError("no output of the reference depends on an input that has a gradient")
        leaves = [inputs[place] for place in places]
        found = torch.autograd.grad([y for y, _ in projected], leaves, [v for _, v in projected], allow_unused=True)
    return [torch.zeros_like(leaf) if one is None else one for one, leaf in zip(found, leaves)]


def expect_gradients(
    function, own, case: dict, inputs: list, cotangents: list, scalars: dict, random: torch.Generator
) -> list[torch.Tensor]:
    """The expected gradients in float64, then for each the size of the terms that it is made of."""
    places = [gradient["of"] for gradient in case["gradients"]]
    weights = cast(cotangents, torch.float64)

    def at(values: list, dtype: torch.dtype) -> list[torch.Tensor]:
        return gradients_of(function, own, places, cast(values, dtype), cast(weights, dtype), scalars)

    exact = [one.to(torch.float64) for one in at(inputs, torch.float64)]
    if [list(one.shape) for one in exact] != [gradient["tensor"]["shape"] for gradient in case["gradients"]]:
        shapes = ", ".join(str(list(one.shape)) for one in exact)
        raise ValueError(f"the gradient of the reference has the shapes {shapes}, which are not those of its inputs")
    samples = samples_of(SAMPLES, [*inputs, *exact])
    return [*exact, *terms_of(at, exact, inputs, places, random, samples)]


def write_inputs(job: dict, channel: Channel) -> bool:
    """Write the inputs of every set, and the weights of its outputs where gradients are judged; whether that could be
    done, which a function of the project that computes an input decides."""

    def write(case: dict, number: int) -> str | None:
        path = os.path.join(job["inputs_dir"], f"{case['place']}-{number}")
        try:
            inputs = make_inputs(job, case, number)
        except Exception as error:  # any failure of the project's own code is told, not raised
            return f"{type(error).__name__}: {error}"
        write_tensors(f"{path}.bin", [one for one in inputs if one is not None])
        if case["sets"][number]["gradient"]:
            cotangents = make_cotangents(job["seed"], case, number)
            write_tensors(f"{path}.cotangents.bin", [one for one in cotangents if one is not None])
        return None

    for case, _, error in side_by_side(job, write):
        if error is not None:
            channel.send("no-reference", case=case["place"], error=error)
            return False
    return True


def eager_results(function, case: dict, inputs: list[torch.Tensor | None], scalars: dict) -> list[torch.Tensor] | str:
    """What PyTorch itself gets in the real dtype; the reason where it gets nothing comparable."""
    try:
        eager = results(function, inputs, scalars)
    except Exception as error:
        # In few words; PyTorch lacks most operators for 8-bit floating point.
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0][:120] if lines else ''}"
    wanted = [DTYPES[output["dtype"]] for output in case["outputs"]]
    found = [tensor.dtype for tensor in eager]
    if found != wanted:
        return f"the reference returns {found[0]} for the real dtypes, op.toml says {wanted[0]}"
    return eager


def is_defined(function, case: dict, inputs: list, scalars: dict, expected: list) -> bool:
    """Whether PyTorch in the real dtype has what is not finite where float64 has it.

    Where it does not, the reference does not say what an infinity or NaN leads to, and no kernel is held to it.
    """
    try:
        eager = results(function, inputs, scalars)
    except Exception:  # an operator that the real dtype lacks; the missing baseline says so
        return False
    for got, exact, output in zip(eager, expected, case["outputs"]):
        wanted = exact.to(DTYPES[output["dtype"]]).to(torch.float64)
        got = got.to(torch.float64)
        # What is too large for the dtype is left to the bound.
        same = (got == wanted) | (got.isnan() & wanted.isnan()) | (got.isfinite() & wanted.isfinite())
        if got.shape != wanted.shape or not bool(same.all()):
            return False
    return True


# Distributions with values that are not finite.
UNDEFINED_KINDS = ("non-finite",)
# Cases of fewer elements take longer to copy to a GPU than to compute on the host.
FEWEST_ON_GPU = 1 << 16


@cache
def gpu() -> torch.device | None:
    """The GPU for float64 arithmetic, if PyTorch can use one."""
    try:
        return torch.device("cuda") if torch.cuda.is_available() else None
    except Exception:  # a driver that does not start leaves the host
        return None


def devices_for(job: dict, case: dict) -> list[torch.device]:
    """The devices to compute the expected results of a case on, in order of preference. The host is always the last one:
    a reference may create tensors there, and the GPU may be full."""
    host = torch.device("cpu")
    elements = max(math.prod(one["shape"]) for one in [*case["inputs"], *case["outputs"]])
    if not job.get("on_gpu") or elements < FEWEST_ON_GPU or gpu() is None:
        return [host]
    return [gpu(), host]


def moved(tensors: list, device: torch.device) -> list:
    """Tensors on a device, `None` where there is none."""
    return [None if one is None else one.to(device) for one in tensors]


def compute(job: dict, function, own, case: dict, number: int, inputs: list, device: torch.device) -> dict:
    """Everything that is expected of one set, computed on `device` and returned on the host.

    `values` are the exact results and the sizes of their terms, `gradients` the same for the backward pass if it is
    judged, `eager` the results of PyTorch in the real dtype or the reason why there are none.
    """
    chosen = case["sets"][number]
    scalars = chosen["scalars"]
    host = torch.device("cpu")
    inputs = moved(inputs, device)
    expected = expect(function, case, inputs, scalars)
    random = generator(job["seed"], case["id"], number, "terms", device=device)
    terms = terms_of_short_rows(function, case, expected, inputs, scalars, random, chosen["hard"])
    found = {"values": moved([*expected, *terms], host), "gradients": None, "eager": "not asked for", "undefined": False}
    if chosen["gradient"]:
        cotangents = moved(make_cotangents(job["seed"], case, number), device)
        gradients = expect_gradients(function, own, case, inputs, cotangents, scalars, random)
        found["gradients"] = moved(gradients, host)
    if chosen["baseline"]:
        eager = eager_results(function, case, inputs, scalars)
        found["eager"] = eager if isinstance(eager, str) else moved(eager, host)
    if chosen["kind"] in UNDEFINED_KINDS:
        found["undefined"] = not is_defined(function, case, inputs, scalars, expected)
    return found


def write_expected(job: dict, function, own, channel: Channel) -> None:
    """Write the expected results of every set, and what PyTorch itself gets in the real dtype; each message has digests
    of what was written, so that nothing that comes after is taken for it."""

    def computed(case: dict, number: int) -> dict:
        inputs = make_inputs(job, case, number)
        *others, host = devices_for(job, case)
        for device in others:
            try:
                return compute(job, function, own, case, number, inputs, device)
            except Exception:  # whatever fails there is computed, or fails for good, on the host
                continue
        return compute(job, function, own, case, number, inputs, host)

    def write(case: dict, number: int) -> dict:
        path = os.path.join(job["expected_dir"], f"{case['place']}-{number}")
        try:
            found = computed(case, number)
            write_tensors(f"{path}.bin", found["values"])
            digests = [digest_of(found["values"])]
            if found["gradients"] is not None:
                write_tensors(f"{path}.gradient.bin", found["gradients"])
                digests.append(digest_of(found["gradients"]))
        except Exception as error:  # any failure of the project's own code is told, not raised
            return {"error": f"{type(error).__name__}: {error}"}
        missing = found["eager"] if isinstance(found["eager"], str) else None
        if missing is None:
            write_tensors(f"{path}.eager.bin", found["eager"])
        return {"missing": missing, "undefined": found["undefined"], "digests": digests}

    for case, number, told in side_by_side(job, write):
        if "error" in told:
            channel.send("no-reference", case=case["place"], set=number, error=told["error"])
            continue
        missing = told["missing"]
        if case["sets"][number]["baseline"] and missing is not None:
            channel.send("no-baseline", reason=missing)
        undefined, digests = told["undefined"], told["digests"]
        channel.send(
            "expected", case=case["place"], set=number, baseline=missing is None, undefined=undefined, digests=digests
        )


def play(job: dict, channel: Channel) -> None:
    """Load the reference, write inputs, wait for the judge, write expected results.

    The reference is loaded before a candidate may run: what is written into its file later is read by nobody.
    """
    torch.set_num_threads(job["threads"])
    channel.send("environment", torch=torch.__version__, python=platform.python_version())
    try:
        function = load_reference(job["reference"], job["function"])
        job["makers"] = makers(job)
        own = load_reference(job["reference"], job["gradient"]) if job["gradient"] else None
    except Exception as error:  # any failure of the project's own code is told, not raised
        channel.send("no-reference", error=f"{type(error).__name__}: {error}")
        channel.send("done")
        return
    if write_inputs(job, channel):
        channel.send("inputs-ready")
        if wait_for(job["gate"]) == "go":
            write_expected(job, function, own, channel)
    channel.send("done")
