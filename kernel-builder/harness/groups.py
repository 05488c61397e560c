"""Trials that belong together: calls on two streams, results that are held, inputs that change or must not change.

Owns: the order of calls within a group, and what happens to memory between them. Never: judges values.

Every trial of a group is one call. All results are held until the last call has been made, then each is dumped.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

import kept
from protocol import TensorSpec
from protocol_verify import Begin, CandidateCase, End, Failure, Kept, Manner, Trial
from tensors import Guarded, dumped_inputs, returned_outputs, share_memory

if TYPE_CHECKING:
    from candidate import Runner

# Bound before any kernel is imported.
mprotect = ctypes.CDLL(None).mprotect
# How long both streams wait until all calls are in their queues, at 2 GHz.
CYCLES = 40_000_000
# Elements and turns of the work that keeps a GPU busy beside calls: each turn takes about a millisecond on an H100.
CROWD, CROWD_TURNS = 1 << 27, 8
# Copies that another stream makes of each input while a call runs.
COPIES = 24
# A defect of a group: its kind, and a description.
Complaint: TypeAlias = tuple[Failure, str]


class Protected(Guarded):
    """A guarded tensor in pages of its own, which can be made read-only."""

    def allocate(self, size: int, device: str) -> torch.Tensor:
        """Whole pages from the system."""
        self.pages = mmap.mmap(-1, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
        return torch.frombuffer(self.pages, dtype=torch.uint8)[:size]

    def allow(self, protection: int) -> None:
        """Set what may be done to the pages."""
        if mprotect(ctypes.c_void_p(self.buffer.data_ptr()), ctypes.c_size_t(len(self.pages)), protection):
            raise OSError("mprotect failed")


class Call:
    """One call of a group with its buffers."""

    def __init__(
        self,
        case: CandidateCase,
        trial: Trial,
        inputs: list[Guarded | None],
        payloads: list[torch.Tensor],
        outputs: list[Guarded],
    ) -> None:
        self.trial, self.inputs, self.payloads, self.outputs = trial, inputs, payloads, outputs
        self.scalars = case.sets[trial.set].scalars
        self.results: list[torch.Tensor] = []
        self.copies: list[torch.Tensor] = []

    def written(self) -> list[torch.Tensor]:
        """Return the results of the call, or the tensors that it was given to write into."""
        return self.results if self.trial.form != "out" else [buffer.view for buffer in self.outputs]

    def reset_inputs(self, but: set[int] | frozenset[int] = frozenset()) -> None:
        """Put the inputs in place, except those of some places."""
        for place, (buffer, payload) in enumerate(zip(self.inputs, self.payloads)):
            if buffer is not None and place not in but:
                buffer.reset(self.trial.poison, payload)

    def reset(self) -> None:
        """Put inputs and poison in place."""
        self.reset_inputs()
        for buffer in self.outputs:
            buffer.reset(self.trial.poison, None)

    def dumped(self, case: CandidateCase) -> list[torch.Tensor]:
        """The buffers of the dump."""
        results = self.results if self.trial.form != "out" else [buffer.buffer for buffer in self.outputs]
        return [*dumped_inputs(case, self.inputs, self.payloads, self.trial.poison), *results]


def overwritten_places(case: CandidateCase) -> set[int]:
    """The inputs that outputs overwrite."""
    return {output.inplace for output in case.outputs if output.inplace is not None}


def watched_place(call: Call) -> int:
    """The place of the input that a trial watches."""
    place = call.trial.input
    if place is None:
        raise ValueError(f"a trial that is {call.trial.manner} watches no input")
    return place


def watched(call: Call) -> Guarded:
    """The input that a trial watches."""
    buffer = call.inputs[watched_place(call)]
    if buffer is None:
        raise ValueError("an input that is watched is not passed")
    return buffer


class Group:
    """The calls of one group."""

    def __init__(self, runner: Runner, case: CandidateCase, trials: list[Trial]) -> None:
        self.runner, self.case = runner, case
        self.busy: tuple[torch.Tensor, torch.cuda.Stream] | None = None
        self.overwrites = bool(overwritten_places(case))
        # Calls with one set share its inputs, but where a call overwrites them.
        shared: dict[int, tuple[list[Guarded | None], list[torch.Tensor]]] = {}
        self.calls: list[Call] = []
        for place, trial in enumerate(trials):
            own = self.overwrites or trial.manner == "overwritten" or trial.input is not None
            name = place if own else trial.set
            if name not in shared:
                payloads = [payload.to(runner.device) for payload in runner.inputs_of(case, trial.set)]
                shared[name] = ([self.buffer(tensor, trial, at) for at, tensor in enumerate(case.inputs)], payloads)
            given = returned_outputs(case) if trial.form == "out" else []
            outputs = [Guarded(output, runner.device, trial.guard, trial.shift) for output in given]
            self.calls.append(Call(case, trial, *shared[name], outputs))

    def buffer(self, tensor: TensorSpec, trial: Trial, place: int | None = None) -> Guarded | None:
        """A buffer for one tensor; none where it is not passed."""
        kind = Protected if place is not None and place == trial.input and trial.manner == "read-only" else Guarded
        return None if tensor.omitted else kind(tensor, self.runner.device, trial.guard, trial.shift)

    def make(self, call: Call) -> Complaint | None:
        """Make one call and hold its results; the event and the text of what is wrong with their form."""
        self.runner.channel.send(Begin(trial=call.trial.id))
        call.results, wrong = self.runner.call(self.case, call.trial, call.inputs, call.outputs, call.scalars)
        return None if wrong is None else ("malformed", wrong)

    def delay(self) -> None:
        """On a GPU: make the current stream wait until the host has queued everything."""
        if self.runner.device == "cuda":
            torch.cuda._sleep(CYCLES)

    def urgent(self) -> AbstractContextManager[Any]:
        """On a GPU: a stream whose work is started before that of ordinary streams."""
        return (
            torch.cuda.stream(torch.cuda.Stream(priority=-1))
            if self.runner.device == "cuda"
            else contextlib.nullcontext()
        )

    def crowd(self) -> None:
        """On a GPU: from the end of the delay on, an ordinary stream occupies the device for a few milliseconds.

        Work of a call that is ordered on the caller's urgent stream is done at once; a tail on another stream comes late.
        """
        if self.runner.device != "cuda":
            return
        if self.busy is None:
            self.busy = torch.full((CROWD,), 0.5, device="cuda"), torch.cuda.Stream()
        work, stream = self.busy
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(CROWD_TURNS):
                torch.lgamma(work, out=work)


def held(group: Group) -> Complaint | None:
    """All results stay with the caller while more calls are made."""
    for call in group.calls:
        call.reset()
    for call in group.calls:
        wrong = group.make(call)
        if wrong is not None:
            return wrong
    group.runner.synchronise()
    tensors = [one for call in group.calls for one in call.results if one.numel()]
    tensors.sort(key=lambda one: one.untyped_storage().data_ptr())
    if any(share_memory(one, other) for one, other in zip(tensors, tensors[1:])):
        return "malformed", "returned the memory of an earlier result, which its caller still holds"
    return None


def streams(group: Group) -> Complaint | None:
    """Calls alternate between two streams, and nothing orders one stream after the other."""
    both = [torch.cuda.Stream(), torch.cuda.Stream()]
    group.runner.synchronise()
    for place, stream in enumerate(both):
        with torch.cuda.stream(stream):
            group.delay()
            for call in group.calls[place::2]:
                call.reset()
    for place, call in enumerate(group.calls):
        with torch.cuda.stream(both[place % 2]):
            wrong = group.make(call)
        if wrong is not None:
            return wrong
    group.runner.synchronise()
    return None


def overwritten(group: Group) -> Complaint | None:
    """Right after each call the caller copies the results and overwrites the inputs, in its own order of work."""
    kept_places = overwritten_places(group.case)
    with group.urgent():
        for call in group.calls:
            group.runner.synchronise()
            group.delay()
            group.crowd()
            call.reset()
            wrong = group.make(call)
            if wrong is not None:
                return wrong
            call.copies = [one.detach().clone() for one in call.written()]
            for place, buffer in enumerate(call.inputs):
                if buffer is not None and place not in kept_places:
                    buffer.reset(call.trial.poison, None)
    group.runner.synchronise()
    for call in group.calls:
        if any(not group.runner.same(one, late) for one, late in zip(call.copies, call.written())):
            return "stream", "a result changed after the caller had copied it and overwritten the inputs"
        # The dump has these inputs as they were passed; whether a call changes them is seen in other trials.
        call.reset_inputs(kept_places)
    group.runner.synchronise()
    return None


def read_only(group: Group) -> Complaint | None:
    """One input lies in pages that cannot be written while the call runs: the system ends a process that tries."""
    for call in group.calls:
        call.reset()
        pages = watched(call)
        if not isinstance(pages, Protected):
            raise TypeError("an input that is read-only has no pages of its own")
        pages.allow(mmap.PROT_READ)
        try:
            wrong = group.make(call)
        finally:
            pages.allow(mmap.PROT_READ | mmap.PROT_WRITE)
        if wrong is not None:
            return wrong
    return None


def read_along(group: Group) -> Complaint | None:
    """Another stream copies an input again and again while the call runs: the copies must not differ."""
    reader = torch.cuda.Stream()
    for call in group.calls:
        buffer = watched(call)
        copies = [torch.empty_like(buffer.buffer) for _ in range(COPIES)]
        group.runner.synchronise()
        group.delay()
        call.reset()
        reader.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(reader):
            for copy in copies:
                copy.copy_(buffer.buffer)
        wrong = group.make(call)
        if wrong is not None:
            return wrong
        group.runner.synchronise()
        if any(not torch.equal(copy, buffer.buffer) for copy in copies):
            name = group.case.inputs[watched_place(call)].name
            return "disturbed", f"the input `{name}` had other contents while the call ran"
    return None


def scrambled(group: Group) -> Complaint | None:
    """Memory that is kept between calls and depends on inputs is filled with random bytes before each call."""
    runner, calls = group.runner, group.calls

    def look() -> dict[int, torch.Tensor]:
        runner.synchronise()
        return kept.contents_of(kept.regions(runner.device, ours()))

    def ours() -> list[torch.Tensor]:
        buffers = [one for call in calls for one in (*call.inputs, *call.outputs) if one is not None]
        payloads = [one for call in calls for one in call.payloads]
        copies = [one for call in calls for one in call.copies]
        return [*(one.buffer for one in buffers), *payloads, *copies, *runner.tensors()]

    first_of_set = list({call.trial.set: call for call in reversed(calls)}.values())[::-1]
    before = look()
    looks: list[dict[int, torch.Tensor]] = []
    for call in (first_of_set[0], *first_of_set):
        call.reset()
        wrong = group.make(call)
        call.results = []
        if wrong is not None:
            return wrong
        looks.append(look())
    masks: dict[int, torch.Tensor] = {}
    for other in looks[2:]:
        masks |= kept.varying(looks[0], looks[1], other)
    if len(first_of_set) > 1:
        # The first call with new inputs may have kept something, too. A single call is one that the judge repeats in a new
        # process, where all that is kept is new.
        masks |= kept.varying(before, before, {at: one for at, one in looks[0].items() if at not in before})
    runner.channel.send(Kept(bytes=sum(one.numel() for one in kept.regions(runner.device, ours()).values())))
    for turn, call in enumerate(calls):
        kept.scramble(kept.regions(runner.device, ours()), masks, everything=turn % 2 == 0)
        call.reset()
        runner.synchronise()
        wrong = group.make(call)
        if wrong is not None:
            return wrong
        # A copy, so that a result that is kept is scrambled only where the package has it.
        call.copies = [one.detach().clone() for one in call.results]
        call.results = []
    for call in calls:
        call.results = call.copies
    runner.synchronise()
    return None


MANNERS: dict[Manner, Callable[[Group], Complaint | None]] = {
    "held": held,
    "streams": streams,
    "overwritten": overwritten,
    "read-only": read_only,
    "read-along": read_along,
    "scrambled": scrambled,
}


def play(runner: Runner, case: CandidateCase, manner: Manner, trials: list[Trial]) -> None:
    """Make the calls of a group, then dump each; a complaint is one about every trial of the group."""
    numbers = [trial.id for trial in trials]
    runner.held = []
    group = None
    try:
        group = Group(runner, case, trials)
        wrong = MANNERS[manner](group)
    except Exception as error:  # whatever the candidate raises is its answer
        wrong = ("raised", runner.described(error))
    # A list, so that every trial of the group is reported.
    if any([runner.suspicious(number) for number in numbers]):  # noqa: C419
        return
    if wrong is not None:
        for number in numbers:
            runner.failed(number, *wrong)
        return
    for call in group.calls if group is not None else []:
        runner.dump(call.trial.id, call.dumped(case))
        runner.channel.send(End(trial=call.trial.id))
