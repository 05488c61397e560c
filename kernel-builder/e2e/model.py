"""The model that is measured: by its sizes, a folder with a config.json, or a function of a person's file.

Owns: how it is made, and whether it fits. Never: downloads anything.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from said import refuse, tell

if TYPE_CHECKING:
    from job import Job

#: Sizes of the phases of a model with --small.
SMALL: dict[str, Any] = {"prefill": [48], "decode": [1, 2], "train": [[2, 24]], "forward": [1, 2], "context": 16}
#: Those of a diffusion model, by its inputs.
SMALL_STEPS: dict[str, Any] = {
    "ltx": {"step": [[2, 2, 4, 4]], "loop": [[2, 2, 2, 4, 4]]},
    "flux": {"step": [[1, 6, 4]], "loop": [[2, 1, 6, 4]]},
}
#: The name under which a person's file is imported.
OWN = "kernelwright_model"
#: The weights may take this share of the free memory.
ROOM = 0.85
#: Sizes of the phases of a language model that a folder describes.
USUAL: dict[str, Any] = {"prefill": [2048, 8192], "decode": [1, 64], "context": 1024}


@dataclass
class Subject:
    """A model, and what is known of it."""

    module: Any
    #: `language`, `image`, `diffusion`, or `function` for a person's module.
    kind: str
    #: The phases by name, each with its sizes.
    phases: dict[str, Any]
    #: Sizes that inputs follow from, such as `vocab_size`.
    sizes: dict[str, Any] = field(default_factory=dict)
    #: The arguments of a call of a person's module.
    arguments: list[Any] = field(default_factory=list)

    def dtype(self) -> torch.dtype:
        """The dtype of its parameters."""
        found = (one.dtype for one in self.module.parameters() if one.is_floating_point())
        return next(found, torch.float32)


def subject(job: Job) -> Subject:
    """The model of a job, on its device."""
    without_needless_masks()
    if job.facts is not None:
        return described(job, job.facts)
    return of_function(job) if job.function is not None else of_folder(job)


def described(job: Job, facts: dict[str, Any]) -> Subject:
    """A model by its sizes, with weights that are drawn."""
    values, phases = facts["values"], facts["phases"]
    if job.small:
        sizes = SMALL_STEPS[facts["inputs"]] if facts["kind"] == "diffusion" else SMALL
        values, phases = values | facts["small"], {name: sizes[name] for name in phases}
    library = imported(facts["library"], job)
    maker = getattr(library, facts["class"])

    def make(given: dict[str, Any]) -> Any:
        return maker(getattr(library, facts["config"])(**given)) if "config" in facts else maker(**given)

    if "layers" in facts:
        values = fitting(make, values, facts["layers"], job)
    return Subject(built(make, values, job).eval(), facts["kind"], phases, values | {"inputs": facts.get("inputs")})


def fitting(make: Any, values: dict[str, Any], layers: str, job: Job) -> dict[str, Any]:
    """The values with as many layers as fit into memory, and with all of them if they do."""
    one, two = (weights(make, values | {layers: count}, job) for count in (1, 2))
    room = available(job) * ROOM - (one - (two - one))
    most = max(1, int(room / (two - one)))
    if most >= values[layers]:
        return values
    tell(f"{job.model}: {most} of {values[layers]} layers fit into memory")
    return values | {layers: most}


def of_folder(job: Job) -> Subject:
    """The language model of a folder: with its weights if it has some, else with drawn ones."""
    library = imported("transformers", job)
    try:
        config = library.AutoConfig.from_pretrained(job.path, local_files_only=True)
        if any(Path(job.path).glob("*.safetensors")):
            maker = library.AutoModelForCausalLM
            module = maker.from_pretrained(job.path, local_files_only=True, dtype=job.dtype_of_torch()).to(job.device)
        else:
            module = built(library.AutoModelForCausalLM.from_config, config, job)
    except (OSError, ValueError) as error:
        refuse(
            f"no language model can be made of `{job.model}`: {error}", "the folder needs a config.json of transformers"
        )
    sizes = {"vocab_size": config.get_text_config().vocab_size}
    phases = {name: SMALL[name] for name in USUAL} if job.small else USUAL
    return Subject(module.eval(), "language", phases, sizes)


def of_function(job: Job) -> Subject:
    """The module that a function of a person's file returns."""
    file, function = job.path, job.function or ""
    spec = importlib.util.spec_from_file_location(OWN, file)
    if spec is None or spec.loader is None or not Path(file).exists():
        refuse(f"`{file}` is not a Python file", "name FILE.py:FUNCTION")
    module = importlib.util.module_from_spec(spec)
    # torch.compile looks the module up by its name.
    sys.modules[OWN] = module
    spec.loader.exec_module(module)
    made = getattr(module, function, None)
    if made is None:
        refuse(f"`{file}` has no function `{function}`", "it must return a module and the arguments of a call")
    match made():
        case (torch.nn.Module() as model, [*arguments]):
            given: list[Any] = list(arguments)
        case _:
            refuse(
                f"`{function}` of `{file}` does not return a module and the arguments of a call",
                "return (module, [tensor, ...])",
            )
    moved: list[Any] = [one.to(job.device) if isinstance(one, torch.Tensor) else one for one in given]
    return Subject(model.to(job.device), "function", {}, arguments=moved)


def imported(name: str, job: Job) -> Any:
    """The library that a model comes from."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        refuse(
            f"`{job.model}` needs the Python package {name}: {error}",
            f"install it into the Python that runs the model: {sys.executable} -m pip install {name}",
        )


def without_needless_masks() -> None:
    """Lets transformers leave out causal masks under torch.compile where it does so without it.

    It makes one in each compiled call, because it cannot read there whether tokens are padded or sequences packed, and
    attention with a mask cannot be flash attention: a compiled model would be slower than it can be. No phase has either.
    """
    try:
        masking: Any = importlib.import_module("transformers.masking_utils")
        known: Any = masking.ALL_MASK_ATTENTION_FUNCTIONS
        own: Any = known["sdpa"]
    except (ImportError, AttributeError, KeyError):
        return

    def mask(*arguments: Any, **keywords: Any) -> Any:
        length, window = keywords.get("q_length"), keywords.get("local_size")
        # A static cache has places that are not filled yet; it counts its tokens in a tensor.
        if (
            keywords.get("allow_is_causal_skip")
            and keywords.get("attention_mask") is None
            and length is not None
            and not isinstance(keywords.get("q_offset"), torch.Tensor)
            and (length == 1 or length == keywords.get("kv_length"))
            and (window is None or keywords["kv_length"] < window)
        ):
            return None
        return own(*arguments, **keywords)

    def not_packed(*_: Any) -> None:
        return None

    known.register("sdpa", mask)
    if hasattr(masking, "find_packed_sequence_indices"):
        masking.find_packed_sequence_indices = not_packed


def weights(make: Any, given: Any, job: Job) -> int:
    """Bytes of the weights of a model, none of which is made."""
    with torch.device("meta"):
        return sum(one.numel() for one in make(given).parameters()) * job.dtype_of_torch().itemsize


def built(make: Any, given: Any, job: Job) -> Any:
    """A model with drawn weights, which are counted before any is made."""
    dtype, needed, free = job.dtype_of_torch(), weights(make, given, job), available(job)
    if needed > free * ROOM:
        refuse(
            f"`{job.model}` has {needed / 1e9:.1f} GB of weights, and {free / 1e9:.1f} GB of memory are free",
            "take a smaller model, or --small",
        )
    tell(f"{job.model}: {needed / 1e9:.2f} GB of weights")
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(job.device):
            model = make(given).to(dtype)
    finally:
        torch.set_default_dtype(before)
    # Norms begin with ones, and a multiplication by one rounds nothing.
    with torch.no_grad():
        for one in model.parameters():
            if one.dim() == 1 and bool((one == 1).all()):
                one.add_(torch.randn_like(one), alpha=0.1)
    return model


def available(job: Job) -> float:
    """Bytes of the device's memory that are free; without bound where the system does not say."""
    if job.device == "cuda":
        return float(torch.cuda.mem_get_info()[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("inf")
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), float("inf"))
