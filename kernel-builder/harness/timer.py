"""Times what it is given, one block at a time, as the program that started it asks.

Owns: the conversation (JSON lines with a nonce), which role this process plays, handing over outputs of timed calls.
Never: decides what is timed when, what a sample means, or, as `candidate`, sees the reference; as `baseline` it never
imports the package.
Runs as `python -I [-S] timer.py`, with its modules beside it; the messages are those of kernel-builder/src/protocol/bench.rs.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import json
import os
import site
import sys
import traceback
from collections.abc import Callable
from io import BufferedWriter
from types import ModuleType
from typing import TYPE_CHECKING, Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from confine import keep
from protocol_bench import (
    Answer,
    BaselineJob,
    Begin,
    Begun,
    BlockRequest,
    Done,
    Give,
    Given,
    Job,
    Judge,
    Judged,
    KernelJob,
    Leave,
    Left,
    LeftOut,
    Machine,
    Open,
    Prepare,
    Prepared,
    Raised,
    Ready,
    Request,
    Suspect,
    Suspected,
    Trace,
)
from wire import decode, line, opening

if TYPE_CHECKING:
    from operands import Case


class Channel:
    """Lines from and to the program that started this. What a kernel or a library prints goes to standard error."""

    def __init__(self) -> None:
        self._in = os.fdopen(os.dup(0), "r", encoding="utf-8")
        self._out = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._nonce = ""

    def job(self) -> Job:
        """The first message."""
        self._nonce, job = opening(self._in.readline(), Job)
        return job

    def hear(self) -> Request | None:
        """The next request, or None when there will be none."""
        text = self._in.readline()
        return decode(Request, json.loads(text), "request") if text else None

    def is_told_to_go(self) -> bool:
        """Wait for the word to begin; whether it comes. Nothing else is done, since the judge's clock runs."""
        return bool(self._in.readline())

    def say(self, answer: Answer) -> None:
        """Send one answer."""
        rest = line(self._nonce, answer)
        while rest:
            rest = rest[os.write(self._out, rest) :]


def import_file(name: str, path: str, package_dir: str | None = None) -> ModuleType:
    """Imports a file as the `kernels` client does: by path, under a name of its own."""
    locations = [package_dir] if package_dir else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def said(error: BaseException) -> str:
    """The first line of an exception, for a reason that fits one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300] if text else ''}"


def machine(torch: ModuleType, job: Job) -> Machine:
    """What the figures belong to."""
    device, reason, l2 = None, None, None
    if job.device == "cpu":
        device = "cpu"
    elif not torch.cuda.is_available():
        reason = f"torch {torch.__version__} finds no CUDA device here"
    else:
        device = torch.cuda.get_device_name(0)
        l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", None)
    return Machine(
        torch=torch.__version__,
        python=sys.version.split()[0],
        threads=torch.get_num_threads(),
        device=device,
        reason=reason,
        l2=l2,
    )


def write_bytes(file: BufferedWriter, tensor: Any) -> None:
    """Append the bytes of a tensor to an open binary file."""
    dense = tensor.detach().cpu().contiguous()
    count = dense.numel() * dense.element_size()
    if count:
        file.write((ctypes.c_char * count).from_address(dense.data_ptr()))


def hand_over(case: Case, station: Any, request: Give) -> str | None:
    """Writes inputs and outputs of timed calls to files; what is wrong with their form is told, and not written."""
    torch, wanted = case.torch, case.outputs
    for place, path in zip(request.places, request.files):
        arguments, outputs = station.kept(place)
        if len(outputs) != len(wanted):
            return f"{len(outputs)} outputs instead of {len(wanted)}"
        for output, declared in zip(outputs, wanted):
            if type(output) not in (torch.Tensor, torch.nn.Parameter):
                return f"output `{declared.name}` is a {type(output).__name__} and no tensor"
            found = (list(output.shape), output.dtype, output.device.type)
            if found != (declared.shape, case.dtypes[declared.dtype], case.device):
                return f"output `{declared.name}` is {found[0]} {found[1]} on {found[2]}"
        with open(path, "wb") as file:
            for input_place, argument in enumerate(arguments):
                if argument is not None and input_place not in case.overwritten:
                    write_bytes(file, argument)
            for output in outputs:
                write_bytes(file, output)
    return None


class Session:
    """The state between requests: one case at a time."""

    def __init__(self, torch: ModuleType, job: Job, channel: Channel) -> None:
        self.torch = torch
        self.job = job
        self.channel = channel
        self.operands = importlib.import_module("operands")
        self.station_of = importlib.import_module("gpu" if job.device == "cuda" else "host").Station
        self.case: Case | None = None
        self.station: Any = None
        if isinstance(job, BaselineJob):
            self.baselines = importlib.import_module("baselines")
            self.referee = importlib.import_module("referee")
            module_of = importlib.import_module("sources").module_of
            self.reference = module_of(job.reference.source, "_kernelwright_reference")
        else:
            entry = os.path.join(job.package, "__init__.py")
            package = import_file(job.id, entry, job.package)
            self.kernel = getattr(package, job.call)

    def begun(self) -> Case:
        """The case that was begun last."""
        if self.case is None:
            raise ValueError("no case was begun")
        return self.case

    def begin(self, request: Begin) -> None:
        """Takes a case; says what it needs of the device's memory and what is free."""
        self.station = None
        self.case = case = self.operands.Case(self.torch, self.job.device, request.case)
        count = len(self.baselines.possible(self.job, case)) if isinstance(self.job, BaselineJob) else 1
        needs, free = self.station_of.memory(self.torch, case, count)
        self.channel.say(Begun(needs=needs, free=free, bytes=case.bytes))

    def prepare(self, request: Prepare) -> None:
        """Makes and warms every contender."""
        case = self.begun()
        case.make_pools(request.seed)
        self.station = station = self.station_of(self.torch, case, request.seed)
        skipped: list[LeftOut] = []
        notes: list[str] = []
        if isinstance(self.job, BaselineJob):
            skipped, notes = self.baselines.enlist(self.torch, self.job, self.reference, case, station)
        else:
            kernel = self.kernel

            def call(inputs: Any) -> Any:
                return kernel(*inputs, **case.scalars)

            station.enlist("kernel", call)
        regimes, not_captured = station.calibrate()
        self.channel.say(Prepared(sets=len(station.sets), regimes=regimes, skipped=skipped + not_captured, notes=notes))

    def block(self, request: BlockRequest) -> None:
        """One block; the clock starts when it is told to go."""
        self.station.ready(request)
        self.channel.say(Ready())
        if not self.channel.is_told_to_go():
            raise SystemExit(0)
        device, inside, kept = self.station.go()
        # A ceiling that does other work than the operation says how much of its time that work stands for.
        part = self.station.parts.get(self.station.name, 1.0)
        self.channel.say(Done(device=device * part, inside=inside, kept=kept))

    def suspect(self, _request: Suspect) -> None:
        """Names the calls that left nothing but poison."""
        self.channel.say(Suspected(places=self.station.suspects()))

    def give(self, request: Give) -> None:
        """Writes inputs and outputs of calls to files."""
        self.channel.say(Given(wrong=hand_over(self.begun(), self.station, request)))

    def judge(self, request: Judge) -> None:
        """What is wrong with the outputs in files, if anything."""
        wrong = self.referee.judge(self.torch, self.job, self.reference, self.case, request.calls)
        self.channel.say(Judged(wrong=wrong))

    def trace(self, request: Trace) -> None:
        """What the device does for calls of a case; the process is not timed afterwards."""
        case = self.operands.Case(self.torch, self.job.device, request.case)
        cupti = importlib.import_module("cupti")
        found = cupti.trace(self.torch, case, self.kernel, request.seed)
        del case
        gc.collect()
        self.torch.cuda.empty_cache()
        self.channel.say(found)

    def leave(self, _request: Leave) -> None:
        """Forgets the case, so that its memory is free for others."""
        self.case = self.station = None
        # Plans of blocks refer to their station, which refers to them.
        gc.collect()
        if self.job.device == "cuda":
            self.torch.cuda.empty_cache()
        self.channel.say(Left())

    def answer(self, request: Request) -> None:
        """Do what a request asks for."""
        answers: dict[type, Callable[[Any], None]] = {
            Begin: self.begin,
            Prepare: self.prepare,
            BlockRequest: self.block,
            Suspect: self.suspect,
            Give: self.give,
            Judge: self.judge,
            Trace: self.trace,
            Leave: self.leave,
        }
        if type(request) not in answers:
            raise ValueError(f"no block is prepared for {type(request).__name__}")
        answers[type(request)](request)


def main() -> None:
    """Open the session, and answer requests until there are no more."""
    channel = Channel()
    job = channel.job()
    if isinstance(job, KernelJob) and job.home is not None:
        keep(job.home, [job.outputs_dir])
    managed = os.environ.get("KERNELWRIGHT_SITE")
    if managed:
        site.addsitedir(managed)
    sys.path[:0] = filter(None, os.environ.get("KERNELWRIGHT_BESIDE", "").split(":"))
    import torch

    from memory import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(job.threads)
    torch.set_grad_enabled(False)
    facts = machine(torch, job)
    channel.say(facts)
    if facts.device is None:
        return
    try:
        session = Session(torch, job, channel)
    except Exception as error:
        traceback.print_exc()
        channel.say(Raised(reason=said(error)))
        return
    channel.say(Open())
    while (request := channel.hear()) is not None:
        try:
            session.answer(request)
        except Exception as error:
            traceback.print_exc()
            channel.say(Raised(reason=said(error)))


main()
