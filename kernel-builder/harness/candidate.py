"""The candidate's process: imports the package, calls it as scheduled, and dumps every buffer afterwards.

Owns: buffers, guards, poison, the order of calls. Never: sees an expected value, and never judges.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import itertools
import os
import sys
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType
from typing import Any, cast

import torch

import groups
from channel import Channel, device_name, python_version, wait_for
from precision import keep_float32
from protocol import Scalar, TensorSpec
from protocol_verify import (
    Begin,
    CandidateCase,
    CandidateJob,
    Done,
    End,
    Failed,
    Failure,
    Loaded,
    LoadFailed,
    Manner,
    NoSpace,
    Schedule,
    Trial,
)
from tensors import (
    DTYPES,
    Guarded,
    as_tensor,
    dumped_inputs,
    fill_bytes,
    payload_bytes,
    read_payloads,
    returned_outputs,
    share_memory,
    write_tensors,
)
from watch import Watch

PACKAGE = "kernel_package"
# What torch.compile is made of: a second to import, for each process that loads the package.
COMPILER = "torch._dynamo"
# How long the GPU waits before the inputs are put in place, at 2 GHz: half a millisecond and twice what the host took for
# the last call, so that all of a call waits in the queue; 20 ms at most, since a first call may compile for long.
CYCLES_PER_SECOND = 2e9
DELAY_S, LONGEST_DELAY_S = 5e-4, 2e-2


def load_package(folder: str) -> ModuleType:
    """Import the artifact as a package, as the stock client does: by path, whatever the folder is called."""
    path = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(PACKAGE, path, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)
    return module


def registered(namespace: str) -> list[str]:
    """The operators that the dispatcher knows in one namespace."""
    names = torch._C._dispatch_get_all_op_names()
    return sorted(name for name in names if name.startswith(namespace + "::"))


class Registered:
    """What libraries of a folder add to the dispatcher while Python loads them, before any Python of the package."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.operators: set[str] = set()
        self.doubled: list[str] = []

    def note(self, added: set[str]) -> None:
        """Keep new operators, and those that have two kernels for one dispatch key: all but the last are inactive."""
        self.operators |= added
        for name in sorted(added):
            lines = torch._C._dispatch_dump(name).splitlines()
            keys = [line.split(" (inactive)")[0].removesuffix("[alias]") for line in lines if " (inactive)" in line]
            self.doubled += [f"{name} for {key}" for key in dict.fromkeys(keys)]

    @contextlib.contextmanager
    def watching(self) -> Generator[None]:
        """Compare the dispatcher before and after every library."""
        loader: Any = ExtensionFileLoader
        create = loader.create_module

        def create_and_compare(one: ExtensionFileLoader, spec: ModuleSpec) -> ModuleType:
            before = set(torch._C._dispatch_get_all_op_names())
            module = create(one, spec)
            if os.path.dirname(spec.origin or "") == self.folder:
                self.note(set(torch._C._dispatch_get_all_op_names()) - before)
            return module

        loader.create_module = create_and_compare
        try:
            yield
        finally:
            loader.create_module = create


def described(error: BaseException, confined: bool) -> str:
    """An exception of the package in one line, and what it may not know."""
    text = "".join(traceback.format_exception_only(error)).strip()
    if confined and isinstance(error, PermissionError):
        text += " (while it is judged, a package can write only below its HOME and TMPDIR)"
    return text


def returned_list(result: Any) -> list[Any]:
    """What a call returned, as a list; nothing for `None`."""
    if result is None:
        return []
    return [*result] if isinstance(result, (tuple, list)) else [result]


def counted(number: int, noun: str) -> str:
    """`1 value`, `2 values`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def form_complaint(tensors: Sequence[Any], wanted: list[TensorSpec], device: str) -> str | None:
    """What is wrong with the form of tensors, if anything."""
    for tensor, spec in zip(tensors, wanted):
        if type(tensor) is not torch.Tensor:
            return f"returned {type(tensor).__module__}.{type(tensor).__qualname__} for `{spec.name}`, not a tensor"
        found = (list(tensor.shape), tensor.dtype, tensor.device.type)
        right = (spec.shape, DTYPES[spec.dtype], device)
        if found != right:
            return "returned `{}` as {} {} on {}, not {} {} on {}".format(spec.name, *found, *right)
    return None


def complaint(returned: list[Any], case: CandidateCase, device: str) -> str | None:
    """What is wrong with the form of what a call returned, if anything."""
    wanted = returned_outputs(case)
    if len(returned) != len(wanted):
        text = (
            f"returned {counted(len(returned), 'value')} where op.toml has {counted(len(wanted), 'output')} to return"
        )
        names = [f"`{output.name}`" for output in case.outputs if output.inplace is not None]
        if names and len(returned) > len(wanted):
            text += f": {', '.join(names)} must be left in the input that it overwrites, and not be returned"
        return text
    return form_complaint(returned, wanted, device)


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one form hold the same, NaN included."""
    flat = [tensor.detach().reshape(-1).contiguous().view(torch.uint8) for tensor in (one, other)]
    return torch.equal(*flat)


class Runner:
    """Calls one function as the schedule says."""

    def __init__(
        self, function: Callable[..., Any], job: CandidateJob, schedule: Schedule, channel: Channel, watch: Watch
    ) -> None:
        self.function = function
        self.confined = job.home is not None
        self.channel = channel
        self.watch = watch
        self.device = job.device
        self.keywords = schedule.out
        self.inputs_dir = schedule.inputs_dir
        self.dumps_dir = schedule.dumps_dir
        self.arenas: dict[str, tuple[list[Guarded | None], list[Guarded]]] = {}
        self.payloads: dict[int, list[torch.Tensor]] = {}
        # Seconds that the host took for the last call.
        self.took = 0.0
        # What an earlier call returned, which its caller may still hold.
        self.held: list[torch.Tensor] = []

    def failed(self, number: int, kind: Failure, error: str) -> None:
        """Report a trial that failed."""
        self.channel.send(Failed(trial=number, kind=kind, error=error))

    def described(self, error: Exception) -> str:
        """The error of a call, as the judge is told it."""
        return described(error, self.confined)

    def start_case(self) -> None:
        """Forget the buffers of the case before."""
        self.arenas.clear()
        self.payloads.clear()
        self.held.clear()

    def arena(self, case: CandidateCase, trial: Trial) -> tuple[list[Guarded | None], list[Guarded]]:
        """The buffers of a trial: those of an earlier trial with the same name, or new ones.

        `None` for an input that is not passed; an output that overwrites an input has no buffer of its own.
        """
        name = trial.arena
        if name not in self.arenas:

            def buffer(tensor: TensorSpec, strides: list[int] | None = None) -> Guarded:
                return Guarded(tensor, self.device, trial.guard, trial.shift, strides)

            inputs = [
                None if tensor.omitted else buffer(tensor, trial.strides.get(str(place)))
                for place, tensor in enumerate(case.inputs)
            ]
            self.arenas[name] = (inputs, [buffer(output) for output in returned_outputs(case)])
        return self.arenas[name]

    def inputs_of(self, case: CandidateCase, number: int) -> list[torch.Tensor]:
        """The payloads of one set, read once."""
        if number not in self.payloads:
            path = os.path.join(self.inputs_dir, f"{case.place}-{number}.bin")
            self.payloads[number] = read_payloads(path, case.inputs)
        return self.payloads[number]

    def tensors(self) -> list[torch.Tensor]:
        """All that this process holds of the case."""
        buffers = [one for arena in self.arenas.values() for side in arena for one in side if one is not None]
        payloads = [payload for of_set in self.payloads.values() for payload in of_set]
        return [*(one.buffer for one in buffers), *payloads, *self.held]

    def same(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether two tensors of one form hold the same, NaN included."""
        return same_bytes(one, other)

    def synchronise(self) -> None:
        """Wait for every stream of the device."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def poison_allocator(self, case: CandidateCase, pattern: int) -> None:
        """Leave poisoned blocks of the right sizes for the next allocations; best effort."""
        blocks = [
            torch.empty(payload_bytes(output), dtype=torch.uint8, device=self.device)
            for output in returned_outputs(case)
            for _ in range(2)
        ]
        for block in blocks:
            fill_bytes(block, pattern)
        del blocks

    def fill(
        self, inputs: list[Guarded | None], outputs: list[Guarded], payloads: list[torch.Tensor], pattern: int
    ) -> None:
        """Put the inputs and the poison in place.

        On a GPU that is queued behind a delay, on the stream that the call is going to be made on: a kernel on another
        stream, the default one included, runs before its inputs are there, and its output is poisoned afterwards.
        """
        if self.device == "cuda":
            payloads = [payload.to(self.device) for payload in payloads]
            torch.cuda.synchronize()
            torch.cuda._sleep(int(CYCLES_PER_SECOND * min(LONGEST_DELAY_S, DELAY_S + 2 * self.took)))
        for buffer, payload in zip(inputs, payloads):
            if buffer is not None:
                buffer.reset(pattern, payload)
        for buffer in outputs:
            buffer.reset(pattern, None)

    def run(self, case: CandidateCase, trial: Trial) -> None:
        """One trial: fill, call, dump."""
        number = trial.id
        payloads = self.inputs_of(case, trial.set)
        inputs, outputs = self.arena(case, trial)
        scalars = case.sets[trial.set].scalars
        # A call that overwrites its inputs works on other values the next time, unless they are put in place again.
        overwrites = any(output.inplace is not None for output in case.outputs)
        self.channel.send(Begin(trial=number))
        results: list[torch.Tensor] = []
        wrong = None
        try:
            for turn in range(trial.calls):
                if overwrites or turn in (0, trial.calls - 1):
                    self.fill(inputs, outputs, payloads, trial.poison)
                if trial.form != "out":
                    self.poison_allocator(case, trial.poison)
                if trial.form == "gradient":
                    results, wrong = self.differentiate(case, trial, inputs, scalars)
                else:
                    results, wrong = self.call(case, trial, inputs, outputs, scalars)
                written = [] if wrong else self.written(case, trial, inputs, outputs, results)
                used = self.used(written)
                self.synchronise()
                if any(not same_bytes(one, late) for one, late in zip(used, written)):
                    text = "the stream on which the call was made had come to its end, and a result changed after that"
                    self.failed(number, "stream", text)
                    return
                wrong = wrong or self.reused(trial, results)
                if wrong is not None:
                    break
        except Exception as error:  # whatever the candidate raises is its answer
            self.failed(number, "raised", self.described(error))
            return
        if self.suspicious(number):
            return
        present = [buffer for buffer in inputs if buffer is not None]
        if wrong is None and any(buffer.overlaps(one) for one in results for buffer in present if one.numel()):
            wrong = "returned a tensor that shares memory with an input"
        if wrong is not None:
            self.failed(number, "malformed", wrong)
            return
        if trial.form == "out":
            results = [buffer.buffer for buffer in outputs]
        self.dump(number, [*dumped_inputs(case, inputs, payloads, trial.poison), *results])
        self.channel.send(End(trial=number))

    def written(
        self,
        case: CandidateCase,
        trial: Trial,
        inputs: list[Guarded | None],
        outputs: list[Guarded],
        results: list[torch.Tensor],
    ) -> list[torch.Tensor]:
        """All that a call wrote: what it returned, was given to write into, and overwrote."""
        places = [output.inplace for output in case.outputs if output.inplace is not None]
        overwritten = [buffer.view for buffer in (inputs[place] for place in places) if buffer is not None]
        return [*results, *(buffer.view for buffer in outputs if trial.form == "out"), *overwritten]

    def used(self, written: list[torch.Tensor]) -> list[torch.Tensor]:
        """On a GPU: copies in the queue of the caller's stream, as who uses the results there would find them."""
        return [one.detach().clone() for one in written] if self.device == "cuda" else []

    def reused(self, trial: Trial, results: list[torch.Tensor]) -> str | None:
        """What is wrong where a call returns the memory of an earlier result that its caller still holds."""
        if trial.form != "functional":
            return None
        held, self.held = self.held, results
        if any(share_memory(one, other) for one in results for other in held):
            return "returned the memory of an earlier result, which its caller still holds"
        return None

    def suspicious(self, number: int) -> bool:
        """Whether a tripwire was touched; told to the judge as what is wrong with this trial."""
        looks: tuple[tuple[Failure, str | None], ...] = (
            ("tampered", self.watch.tampered()),
            ("settings", self.watch.unsettled()),
            ("network", self.watch.reached_out()),
        )
        for kind, found in looks:
            if found is not None:
                self.failed(number, kind, found)
                return True
        return False

    def call(
        self,
        case: CandidateCase,
        trial: Trial,
        inputs: list[Guarded | None],
        outputs: list[Guarded],
        scalars: dict[str, Scalar],
    ) -> tuple[list[torch.Tensor], str | None]:
        """What one call returns, none of it where it writes into given tensors; and what is wrong with its form."""
        arguments = [None if buffer is None else buffer.view for buffer in inputs]
        into: dict[str, torch.Tensor] = {}
        if trial.form == "out":
            into = {keyword: buffer.view for keyword, buffer in zip(self.keywords, outputs)}
        start = time.perf_counter()
        with torch.no_grad():
            result = self.function(*arguments, **scalars, **into)
        self.took = time.perf_counter() - start
        if trial.form == "out":
            return [], None
        returned = returned_list(result)
        return returned, complaint(returned, case, self.device)

    def differentiate(
        self, case: CandidateCase, trial: Trial, inputs: list[Guarded | None], scalars: dict[str, Scalar]
    ) -> tuple[list[torch.Tensor], str | None]:
        """The gradients of a random projection of the outputs, and what is wrong with their form."""
        arguments = [None if buffer is None else buffer.view for buffer in inputs]
        places = [gradient.of for gradient in case.gradients]
        leaves: list[torch.Tensor] = []
        for place in places:
            argument = arguments[place]
            if argument is None:
                raise ValueError(f"a gradient is asked of input {place}, which is not passed")
            leaves.append(argument.detach().requires_grad_())
            arguments[place] = leaves[-1]
        path = os.path.join(self.inputs_dir, f"{case.place}-{trial.set}.cotangents.bin")
        floating = [output for output in case.outputs if DTYPES[output.dtype].is_floating_point]
        cotangents = [
            as_tensor(payload, output).to(self.device)
            for payload, output in zip(read_payloads(path, floating), floating)
        ]
        with torch.enable_grad():
            returned = returned_list(self.function(*arguments, **scalars))
        wrong = complaint(returned, case, self.device)
        if wrong is not None:
            return [], wrong
        projected = [
            (tensor, cotangent)
            for tensor, cotangent in zip([one for one in returned if one.is_floating_point()], cotangents)
            if tensor.requires_grad
        ]
        if not projected:
            return [], "returned nothing that PyTorch can differentiate: no output has `requires_grad`"
        tensors, weights = zip(*projected)
        # One is `None` where an output does not depend on the input.
        gradients = [*torch.autograd.grad(tensors, leaves, weights, allow_unused=True)]
        for gradient, place in zip(cast("Sequence[torch.Tensor | None]", gradients), places):
            if gradient is None:
                return [], f"gave no gradient at all for `{case.inputs[place].name}`"
        wanted = [gradient.tensor for gradient in case.gradients]
        return list(gradients), form_complaint(gradients, wanted, self.device)

    def dump(self, number: int, tensors: list[torch.Tensor]) -> None:
        """Write whole buffers, guards included."""
        try:
            write_tensors(os.path.join(self.dumps_dir, f"{number}.bin"), tensors)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # A full disk says nothing about the package, and no call after it could be judged.
            self.channel.send(NoSpace())
            sys.exit(1)


def play(job: CandidateJob, channel: Channel) -> None:
    """Load the package; when there is a schedule, wait for the inputs and run it."""
    torch.set_num_threads(job.threads)
    keep_float32(torch)
    watch = Watch(job.package)
    had_compiler = COMPILER in sys.modules
    # The package's own code runs from here on, so the oracle must have read all that it reads.
    if job.schedule is not None and wait_for(job.schedule.begin) != "go":
        return
    try:
        libraries = Registered(job.package)
        with libraries.watching():
            package = load_package(job.package)
    except BaseException as error:  # SystemExit at import is a refusal, too
        channel.send(LoadFailed(error=described(error, job.home is not None)))
        return
    function = getattr(package, job.function, None) if job.function else None
    channel.send(
        Loaded(
            operators=registered(job.namespace),
            elsewhere=sorted(name for name in libraries.operators if not name.startswith(job.namespace + "::")),
            doubled=libraries.doubled,
            has_function=callable(function),
            imports_compiler=COMPILER in sys.modules and not had_compiler,
            torch=torch.__version__,
            python=python_version(),
            device=device_name(job.device),
            cuda_available=torch.cuda.is_available(),
        )
    )
    if job.schedule is not None and not run_schedule(function, job, job.schedule, channel, watch):
        return
    channel.send(Done(opened=watch.opened()))


def manner_of(trial: Trial) -> Manner:
    """The kind of group that a trial belongs to."""
    return trial.manner


def run_schedule(function: Any, job: CandidateJob, schedule: Schedule, channel: Channel, watch: Watch) -> bool:
    """Wait for the inputs and make every call; whether the judge wants them."""
    on_gpu = job.device == "cuda"
    if on_gpu:
        torch.cuda.init()
    if wait_for(schedule.gate) != "go":
        return False
    runner = Runner(function, job, schedule, channel, watch)
    # PyTorch's own streams do not wait for the default stream, so a kernel that is launched there shows, too.
    with torch.cuda.stream(torch.cuda.Stream()) if on_gpu else contextlib.nullcontext():
        for case in schedule.cases:
            runner.start_case()
            for manner, trials in itertools.groupby(case.trials, key=manner_of):
                if manner != "single":
                    groups.play(runner, case, manner, list(trials))
                    continue
                for trial in trials:
                    runner.run(case, trial)
    return True
