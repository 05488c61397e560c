"""How far the results of a model are from those of a copy in float32, as it is and with the packages.

Owns: the errors, and how large one may be. Never: times.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from phases import forward, step, tokens

if TYPE_CHECKING:
    from job import Job
    from model import Subject
    from packages import Switch

#: The error with packages is at most this many times that of the model as it is.
WORST = 2.0
#: An error of float32 arithmetic, which a model in float32 has none of beside itself.
NEGLIGIBLE = 1e-5
#: Tokens that are compared, those of a small model, and those of the greedy continuation.
COMPARED, FEW, GREEDY = 256, 48, 64


def results(subject: Subject, job: Job, device: str) -> torch.Tensor:
    """Logits of a model, or its first result, in float32 on the host."""
    model, dtype = subject.module, subject.dtype()
    with torch.no_grad():
        if subject.kind == "function":
            given = [placed(one, device, dtype) for one in subject.arguments]
            found: Any = model(*given)
            first: Any = found if isinstance(found, torch.Tensor) else found[0]
            return first.float().cpu()
        if subject.kind == "language":
            ids = tokens(subject, 1, FEW if job.small else COMPARED, device)
            return model(input_ids=ids, use_cache=False).logits.float().cpu()
        here = dataclasses.replace(job, device=device)
        if subject.kind == "diffusion":
            return step(subject, here, *subject.phases["step"][0])(model).float().cpu()
        return forward(subject, here, 2)(model).last_hidden_state.float().cpu()


def placed(value: Any, device: str, dtype: torch.dtype) -> Any:
    """An argument on a device; floating-point tensors in the dtype of the model."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(device, dtype) if value.is_floating_point() else value.to(device)


def greedy(subject: Subject, job: Job) -> list[int]:
    """The tokens that a model goes on with."""
    ids = tokens(subject, 1, 16, job.device)
    with torch.no_grad():
        found = subject.module.generate(ids, max_new_tokens=GREEDY, do_sample=False, pad_token_id=0)
    return found[0, 16:].tolist()


def fits_twice(subject: Subject, job: Job) -> bool:
    """Whether the device has room for a copy in float32."""
    if job.device != "cuda":
        return True
    needed = 4 * sum(one.numel() for one in subject.module.parameters())
    return needed * 1.2 < torch.cuda.mem_get_info()[0]


def compared(subject: Subject, switch: Switch, job: Job) -> dict[str, Any]:
    """The line that compares results with those in float32."""
    found: dict[str, torch.Tensor] = {}
    continued: dict[str, list[int]] = {}
    speaks = subject.kind == "language"
    for title, on in (("eager", False), ("kernels", True)):
        switch.put(on)
        found[title] = results(subject, job, job.device)
        if speaks:
            continued[title] = greedy(subject, job)
    switch.put(on=False)
    place = job.device if fits_twice(subject, job) else "cpu"
    wide = dataclasses.replace(subject, module=copy.deepcopy(subject.module).float().to(place))
    exact = results(wide, job, place)
    del wide
    line: dict[str, Any] = {"phase": "numbers"}
    for title, got in found.items():
        error = got - exact
        norm = error.square().sum().sqrt() / exact.square().sum().sqrt()
        own = {"error": float(norm), "largest": float(error.abs().max() / exact.abs().max())}
        both = (got.flatten().double(), exact.flatten().double())
        own["cosine"] = float(torch.nn.functional.cosine_similarity(*both, dim=0))
        if speaks:
            right, given = exact.log_softmax(-1), got.log_softmax(-1)
            own["divergence"] = float((right.exp() * (right - given)).sum(-1).mean())
            own["same_choice"] = float(torch.eq(exact.argmax(-1), got.argmax(-1)).float().mean())
        line[title] = own
    if speaks:
        line["greedy_alike"] = sum(a == b for a, b in zip(continued["eager"], continued["kernels"], strict=True))
        line["greedy"] = GREEDY
    line["within"] = bool(line["kernels"]["error"] <= WORST * line["eager"]["error"] + NEGLIGIBLE)
    return line
