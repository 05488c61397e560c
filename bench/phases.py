"""The phases of a model that e2e.py times: what each of them calls.

Owns: inputs, caches, the graph of a decode step. Never: times.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch


def tokens(facts, count, length, device):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(facts["values"]["vocab_size"], (count, length), generator=generator).to(device)


def prefill(model, facts, options, length):
    ids = tokens(facts, 1, length, options.device)
    return lambda called: called(input_ids=ids, use_cache=False, logits_to_keep=1)


def forward(model, facts, options, count):
    size = facts["values"]["image_size"]
    images = torch.randn(count, 3, size, size, device=options.device, dtype=options.dtype)
    return lambda called: called(pixel_values=images)


def decode(model, facts, options, count):
    """A step with a dynamic cache, which is cut back after it."""
    context = facts["phases"]["context"]
    ids, step = tokens(facts, count, context, options.device), tokens(facts, count, 1, options.device)
    with torch.no_grad():
        cache = model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values

    def run(called):
        called(input_ids=step, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache.crop(-1)

    return run


def train(model, facts, options, count, length):
    ids = tokens(facts, count, length, options.device)

    def run(called):
        called(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        model.zero_grad(set_to_none=True)

    return run


def graphed(model, facts, options, count):
    """A replay of a decode step with a static cache."""
    from transformers import StaticCache

    context = facts["phases"]["context"]
    ids, step = tokens(facts, count, context, options.device), tokens(facts, count, 1, options.device)
    with torch.no_grad():
        cache = StaticCache(config=model.config, max_cache_len=context + 8)
        model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        position = torch.full((1,), context, device=options.device, dtype=torch.long)
        places = position.expand(count, 1)
        given = {"input_ids": step, "position_ids": places, "past_key_values": cache, "cache_position": position}
        # Caches of transformers 5 count their tokens on the device, and a step adds one.
        counts = [getattr(one, "cumulative_length", None) for one in cache.layers]
        counts = [one for one in counts if isinstance(one, torch.Tensor)]

        def call():
            if counts:
                torch._foreach_zero_(counts)
                torch._foreach_add_(counts, context)
            model(**given, use_cache=True, logits_to_keep=1)

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
    return lambda _: graph.replay()


@dataclass(frozen=True)
class Phase:
    """One way to call a model, which is timed."""

    title: str
    #: Returns a function that calls what it is given.
    make: Callable[[], Callable]
    #: The same as a replayed CUDA graph, where there is one.
    graph: Callable[[], Callable] | None = None
    trains: bool = False


def phases(model, facts, arguments, options):
    """The phases of a model; a person's module has one."""
    if facts is None:
        yield Phase("forward", lambda: lambda called: called(*arguments))
        return
    makers = {"prefill": prefill, "decode": decode, "train": train, "forward": forward}
    for name, all_sizes in facts["phases"].items():
        if name == "context":
            continue
        for sizes in all_sizes:
            given = (model, facts, options, *(sizes if isinstance(sizes, list) else [sizes]))
            title = " ".join(map(str, [name, *given[3:]]))
            graph = functools.partial(graphed, *given) if name == "decode" else None
            yield Phase(title, functools.partial(makers[name], *given), graph, trains=name == "train")
