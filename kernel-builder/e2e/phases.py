"""The phases of a model: what each of them calls.

Owns: inputs, caches, the graph of a decode step. Never: times.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from job import Job
    from model import Subject

#: Calls the model, or what torch.compile made of it.
Call = Callable[[Any], Any]


@dataclass(frozen=True)
class Phase:
    """One way to call a model, which is timed."""

    title: str
    #: Returns a function that calls what it is given.
    make: Callable[[], Call]
    #: The same as a replayed CUDA graph, where there is one.
    graph: Callable[[], Call] | None = None
    trains: bool = False


def tokens(subject: Subject, count: int, length: int, device: str) -> torch.Tensor:
    """`count` sequences of drawn tokens."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(subject.sizes["vocab_size"], (count, length), generator=generator).to(device)


def noise(subject: Subject, job: Job, *shape: int) -> torch.Tensor:
    """Drawn numbers in the dtype of the job, which a copy of the model in float32 gets, too."""
    generator = torch.Generator().manual_seed(3)
    return torch.randn(shape, generator=generator).to(job.dtype_of_torch()).to(job.device, subject.dtype())


def prefill(subject: Subject, job: Job, length: int) -> Call:
    """A sequence, of which the logits of the last token are computed."""
    ids = tokens(subject, 1, length, job.device)
    return lambda called: called(input_ids=ids, use_cache=False, logits_to_keep=1)


def forward(subject: Subject, job: Job, count: int) -> Call:
    """Images."""
    size = subject.sizes["image_size"]
    images = noise(subject, job, count, 3, size, size)
    return lambda called: called(pixel_values=images)


def decode(subject: Subject, job: Job, count: int) -> Call:
    """A token for each of `count` sequences, with a dynamic cache that is cut back after it."""
    context = subject.phases["context"]
    ids, step = tokens(subject, count, context, job.device), tokens(subject, count, 1, job.device)
    with torch.no_grad():
        cache = subject.module(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values

    def run(called: Any) -> None:
        called(input_ids=step, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache.crop(-1)

    return run


def ltx(subject: Subject, job: Job, count: int, frames: int, height: int, width: int) -> dict[str, Any]:
    """The arguments of a denoising step of LTX-Video, for latents of this size."""
    words, channels = 128, subject.sizes["caption_channels"]
    return {
        "hidden_states": noise(subject, job, count, frames * height * width, subject.sizes["in_channels"]),
        "encoder_hidden_states": noise(subject, job, count, words, channels),
        "timestep": torch.full((count,), 500.0, device=job.device, dtype=subject.dtype()),
        "encoder_attention_mask": torch.ones(count, words, device=job.device, dtype=subject.dtype()),
        "num_frames": frames,
        "height": height,
        "width": width,
        # 8 frames and 32 pixels for each latent, 25 frames a second.
        "rope_interpolation_scale": (8 / 25, 32, 32),
    }


def flux(subject: Subject, job: Job, count: int, height: int, width: int) -> dict[str, Any]:
    """The arguments of a denoising step of FLUX.1, for packed latents of this size."""
    words, sizes = 8 if job.small else 512, subject.sizes
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    places = torch.stack([torch.zeros_like(rows), rows, columns], dim=-1).view(-1, 3)
    ones = torch.ones(count, device=job.device, dtype=subject.dtype())
    return {
        "hidden_states": noise(subject, job, count, height * width, sizes["in_channels"]),
        "encoder_hidden_states": noise(subject, job, count, words, sizes["joint_attention_dim"]),
        "pooled_projections": noise(subject, job, count, sizes["pooled_projection_dim"]),
        "timestep": ones * 0.5,
        "guidance": ones * 3.5,
        "img_ids": places.to(job.device, subject.dtype()),
        "txt_ids": torch.zeros(words, 3, device=job.device, dtype=subject.dtype()),
    }


#: The arguments of a denoising step, by the `inputs` of a model's file.
STEPS: dict[str, Callable[..., dict[str, Any]]] = {"ltx": ltx, "flux": flux}


def step(subject: Subject, job: Job, *sizes: int) -> Call:
    """A denoising step."""
    given = STEPS[subject.sizes["inputs"]](subject, job, *sizes)
    return lambda called: called(**given, return_dict=False)[0]


def loop(subject: Subject, job: Job, steps: int, *sizes: int) -> Call:
    """All denoising steps of a sample, by Euler's method."""
    given = STEPS[subject.sizes["inputs"]](subject, job, *sizes)

    def run(called: Any) -> torch.Tensor:
        latents: torch.Tensor = given["hidden_states"]
        for _ in range(steps):
            latents = latents - called(**{**given, "hidden_states": latents}, return_dict=False)[0] / steps
        return latents

    return run


def train(subject: Subject, job: Job, count: int, length: int) -> Call:
    """A forward and a backward pass of `count` sequences."""
    ids = tokens(subject, count, length, job.device)

    def run(called: Any) -> None:
        called(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        subject.module.zero_grad(set_to_none=True)

    return run


def graphed(subject: Subject, job: Job, count: int) -> Call:
    """A replay of a decode step with a static cache."""
    cache_of: Any = importlib.import_module("transformers").StaticCache
    context = subject.phases["context"]
    ids, step = tokens(subject, count, context, job.device), tokens(subject, count, 1, job.device)
    with torch.no_grad():
        cache: Any = cache_of(config=subject.module.config, max_cache_len=context + 8)
        subject.module(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        position = torch.full((1,), context, device=job.device, dtype=torch.long)
        places = position.expand(count, 1)
        given: dict[str, Any] = {
            "input_ids": step,
            "position_ids": places,
            "past_key_values": cache,
            "cache_position": position,
        }
        # Caches of transformers 5 count their tokens on the device, and a step adds one.
        counts: list[Any] = [getattr(one, "cumulative_length", None) for one in cache.layers]
        counts = [one for one in counts if isinstance(one, torch.Tensor)]

        def call() -> None:
            for one in counts:
                one.fill_(context)
            subject.module(**given, use_cache=True, logits_to_keep=1)

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()

    def replay(_: Any, kept: Any = (cache, given, counts)) -> None:
        # The graph has the addresses of these tensors, which must stay theirs.
        graph.replay()

    return replay


#: What makes the calls of a phase. More sizes than one are a list in a model's file.
MAKERS: dict[str, Callable[..., Call]] = {
    "prefill": prefill,
    "decode": decode,
    "train": train,
    "forward": forward,
    "step": step,
    "loop": loop,
}


def phases(subject: Subject, job: Job) -> Iterator[Phase]:
    """The phases of a model; a person's module has one."""
    if subject.kind == "function":
        arguments = subject.arguments
        yield Phase("forward", lambda: lambda called: called(*arguments))
        return
    for name, maker in MAKERS.items():
        for sizes in subject.phases.get(name, ()):
            given: list[Any] = [sizes] if isinstance(sizes, int) else list(sizes)
            title = " ".join(map(str, [name, *given]))
            graph = functools.partial(graphed, subject, job, *given) if name == "decode" else None
            yield Phase(title, functools.partial(maker, subject, job, *given), graph, trains=name == "train")
