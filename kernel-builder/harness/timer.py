"""Times what it is given, one block at a time, as the program that started it asks.

Owns: the conversation (JSON lines with a nonce), which role this process plays, handing over outputs of timed calls.
Never: decides what is timed when, what a sample means, or, as `candidate`, sees the reference; as `baseline` it never
imports the package.
Runs as `python -I [-S] timer.py`, with its modules beside it; what comes and goes is told in `bench/python/lines.rs`.
"""

import ctypes
import gc
import importlib
import importlib.util
import json
import os
import site
import sys
import traceback


class Channel:
    """Lines from and to the program that started this. What a kernel or a library prints goes to standard error."""

    def __init__(self):
        self._in = os.fdopen(os.dup(0), "r", encoding="utf-8")
        self._out = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._nonce = ""

    def job(self):
        job = self.hear()
        self._nonce = job.pop("nonce")
        return job

    def hear(self):
        """The next request, or None when there will be none."""
        line = self._in.readline()
        return json.loads(line) if line else None

    def say(self, event, **fields):
        rest = (json.dumps({"nonce": self._nonce, "event": event, **fields}) + "\n").encode()
        while rest:
            rest = rest[os.write(self._out, rest) :]


def import_file(name, path, package_dir=None):
    """Imports a file as the `kernels` client does: by path, under a name of its own."""
    locations = [package_dir] if package_dir else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=locations)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def said(error):
    """The first line of an exception, for a reason that fits one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300] if text else ''}"


def machine(torch, job):
    """What the figures belong to."""
    facts = {"torch": torch.__version__, "python": sys.version.split()[0], "threads": torch.get_num_threads(),
             "device": None, "reason": None, "l2": None}
    if job["device"] == "cpu":
        facts["device"] = "cpu"
    elif not torch.cuda.is_available():
        facts["reason"] = f"torch {torch.__version__} finds no CUDA device here"
    else:
        facts["device"] = torch.cuda.get_device_name(0)
        facts["l2"] = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", None)
    return facts


def write_bytes(file, tensor):
    """Append the bytes of a tensor to an open binary file."""
    dense = tensor.detach().cpu().contiguous()
    count = dense.numel() * dense.element_size()
    if count:
        file.write((ctypes.c_char * count).from_address(dense.data_ptr()))


def hand_over(case, station, request):
    """Writes inputs and outputs of timed calls to files; what is wrong with their form is told, and not written."""
    torch, wanted = case.torch, case.outputs
    for place, path in zip(request["places"], request["files"]):
        arguments, outputs = station.kept(place)
        if len(outputs) != len(wanted):
            return f"{len(outputs)} outputs instead of {len(wanted)}"
        for output, declared in zip(outputs, wanted):
            if type(output) not in (torch.Tensor, torch.nn.Parameter):
                return f"output `{declared['name']}` is a {type(output).__name__} and no tensor"
            found = (list(output.shape), output.dtype, output.device.type)
            if found != (declared["shape"], case.dtypes[declared["dtype"]], case.device):
                return f"output `{declared['name']}` is {found[0]} {found[1]} on {found[2]}"
        with open(path, "wb") as file:
            for input_place, argument in enumerate(arguments):
                if argument is not None and input_place not in case.overwritten:
                    write_bytes(file, argument)
            for output in outputs:
                write_bytes(file, output)
    return None


class Session:
    """The state between requests: one case at a time."""

    def __init__(self, torch, job, channel):
        self.torch = torch
        self.job = job
        self.channel = channel
        self.operands = importlib.import_module("operands")
        self.station_of = getattr(importlib.import_module("gpu" if job["device"] == "cuda" else "host"), "Station")
        self.case = None
        self.station = None
        if job["role"] == "baseline":
            self.baselines = importlib.import_module("baselines")
            self.referee = importlib.import_module("referee")
            self.reference = import_file("_kernelwright_reference", job["reference"]["file"])
        else:
            entry = os.path.join(job["package"], "__init__.py")
            package = import_file(job["id"], entry, job["package"])
            self.kernel = getattr(package, job["call"])

    def begin(self, request):
        """Takes a case; says what it needs of the device's memory and what is free."""
        self.station = None
        self.case = self.operands.Case(self.torch, self.job, request["case"])
        count = len(self.baselines.possible(self.job, self.case)) if self.job["role"] == "baseline" else 1
        needs, free = self.station_of.memory(self.torch, self.case, count)
        self.channel.say("begun", needs=needs, free=free, bytes=self.case.bytes)

    def prepare(self, request):
        """Makes and warms every contender."""
        case = self.case
        case.make_pools(request["seed"])
        self.station = station = self.station_of(self.torch, case, request["seed"])
        skipped, notes = [], []
        if self.job["role"] == "baseline":
            skipped, notes = self.baselines.enlist(self.torch, self.job, self.reference, case, station)
        else:
            station.enlist("kernel", lambda inputs, kernel=self.kernel: kernel(*inputs, **case.scalars))
        regimes, not_captured = station.calibrate()
        self.channel.say("prepared", sets=len(station.sets), regimes=regimes, skipped=skipped + not_captured, notes=notes)

    def block(self, request):
        """One block; the clock starts when it is told to go."""
        self.station.ready(request)
        self.channel.say("ready")
        if self.channel.hear() is None:
            raise SystemExit(0)
        device, inside, kept = self.station.go()
        # A ceiling that does other work than the operation says how much of its time that work stands for.
        part = self.station.parts.get(self.station.name, 1.0)
        self.channel.say("done", device=device * part, inside=inside, kept=kept)

    def suspect(self, _request):
        self.channel.say("suspected", places=self.station.suspects())

    def give(self, request):
        self.channel.say("given", wrong=hand_over(self.case, self.station, request))

    def judge(self, request):
        """What is wrong with the outputs in files, if anything."""
        verdict = self.referee.judge(self.torch, self.job, self.reference, self.case, request["calls"])
        self.channel.say("judged", **verdict)

    def trace(self, request):
        """What the device does for calls of a case; the process is not timed afterwards."""
        case = self.operands.Case(self.torch, self.job, request["case"])
        cupti = importlib.import_module("cupti")
        found = cupti.trace(self.torch, case, self.kernel, request["seed"])
        del case
        gc.collect()
        self.torch.cuda.empty_cache()
        self.channel.say("traced", **found)

    def leave(self, _request):
        """Forgets the case, so that its memory is free for others."""
        self.case = self.station = None
        # Plans of blocks refer to their station, which refers to them.
        gc.collect()
        if self.job["device"] == "cuda":
            self.torch.cuda.empty_cache()
        self.channel.say("left")


REQUESTS = ("begin", "prepare", "block", "suspect", "give", "judge", "trace", "leave")


def main():
    channel = Channel()
    job = channel.job()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    managed = os.environ.get("KERNELWRIGHT_SITE")
    if managed:
        site.addsitedir(managed)
    sys.path[:0] = filter(None, os.environ.get("KERNELWRIGHT_BESIDE", "").split(":"))
    import torch
    from memory import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(job["threads"])
    torch.set_grad_enabled(False)
    facts = machine(torch, job)
    channel.say("machine", **facts)
    if facts["device"] is None:
        return
    try:
        session = Session(torch, job, channel)
    except Exception as error:
        traceback.print_exc()
        channel.say("raised", reason=said(error))
        return
    channel.say("open")
    while (request := channel.hear()) is not None:
        try:
            if request["do"] not in REQUESTS:
                raise ValueError(f"unknown request {request['do']!r}")
            getattr(session, request["do"])(request)
        except Exception as error:
            traceback.print_exc()
            channel.say("raised", reason=said(error))


main()
