"""The candidate's process: imports the package, calls it as scheduled, and dumps every buffer afterwards.

Owns: buffers, guards, poison, the order of calls. Never: sees an expected value, and never judges.
"""

import contextlib
import importlib.util
import os
import sys
import traceback

import torch

from channel import Channel, environment, wait_for
from tensors import DTYPES, Guarded, payload_bytes, read_payloads, write_tensors

PACKAGE = "kernel_package"
# How long the GPU waits before the inputs are put in place: about half a millisecond, many times what launching takes.
DELAY_CYCLES = 1_000_000


def load_package(folder: str):
    """Import the artifact as a package, as the stock client does: by path, whatever the folder is called."""
    path = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(PACKAGE, path, submodule_search_locations=[folder])
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)
    return module


def registered(namespace: str) -> list[str]:
    """The operators that the dispatcher knows in one namespace."""
    names = torch._C._dispatch_get_all_op_names()
    return sorted(name for name in names if name.startswith(namespace + "::"))


def complaint(result: object, case: dict, device: str) -> str | None:
    """What is wrong with the form of returned tensors, if anything."""
    tensors = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(tensors) != len(case["outputs"]):
        return f"returned {len(tensors)} values where op.toml has {len(case['outputs'])} outputs"
    for tensor, output in zip(tensors, case["outputs"]):
        if type(tensor) is not torch.Tensor:
            return f"returned {type(tensor).__module__}.{type(tensor).__qualname__} for `{output['name']}`, not a tensor"
        found = (list(tensor.shape), tensor.dtype, tensor.device.type)
        wanted = (output["shape"], DTYPES[output["dtype"]], device)
        if found != wanted:
            return "returned `{}` as {} {} on {}, not {} {} on {}".format(output["name"], *found, *wanted)
    return None


class Runner:
    """Calls one function as the schedule says."""

    def __init__(self, function, job: dict, channel: Channel) -> None:
        self.function = function
        self.channel = channel
        self.device = job["device"]
        self.keywords = job["out"]
        self.guard = job["guard"]
        self.inputs_dir = job["inputs_dir"]
        self.dumps_dir = job["dumps_dir"]
        self.arenas: dict = {}
        self.payloads: dict = {}

    def start_case(self) -> None:
        """Forget the buffers of the case before."""
        self.arenas.clear()
        self.payloads.clear()

    def arena(self, case: dict, trial: dict) -> tuple[list[Guarded], list[Guarded]]:
        """The buffers of a trial: those of an earlier trial with the same name, or new ones."""
        name = trial["arena"]
        if name not in self.arenas:
            self.arenas[name] = tuple(
                [Guarded(tensor, self.device, self.guard, trial["shift"]) for tensor in case[side]]
                for side in ("inputs", "outputs")
            )
        return self.arenas[name]

    def inputs_of(self, case: dict, number: int) -> list[torch.Tensor]:
        """The payloads of one set, read once."""
        if number not in self.payloads:
            path = os.path.join(self.inputs_dir, f"{case['place']}-{number}.bin")
            self.payloads[number] = read_payloads(path, case["inputs"])
        return self.payloads[number]

    def synchronise(self) -> None:
        """Wait for every stream of the device."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def poison_allocator(self, case: dict, pattern: int) -> None:
        """Leave poisoned blocks of the right sizes for the next allocations; best effort."""
        blocks = [
            torch.full((payload_bytes(output),), pattern, dtype=torch.uint8, device=self.device)
            for output in case["outputs"]
            for _ in range(2)
        ]
        del blocks

    def fill(self, inputs: list[Guarded], outputs: list[Guarded], payloads: list[torch.Tensor], pattern: int) -> None:
        """Put the inputs and the poison in place.

        On a GPU that is queued behind a delay, on the stream that the call is going to be made on: a kernel on another
        stream, the default one included, runs before its inputs are there, and its output is poisoned afterwards.
        """
        if self.device == "cuda":
            payloads = [payload.to(self.device) for payload in payloads]
            torch.cuda.synchronize()
            torch.cuda._sleep(DELAY_CYCLES)
        for buffer, payload in zip(inputs, payloads):
            buffer.reset(pattern, payload)
        for buffer in outputs:
            buffer.reset(pattern, None)

    def run(self, case: dict, trial: dict) -> None:
        """One trial: fill, call, dump."""
        number = trial["id"]
        payloads = self.inputs_of(case, trial["set"])
        inputs, outputs = self.arena(case, trial)
        scalars = case["sets"][trial["set"]]["scalars"]
        arguments = [buffer.view for buffer in inputs]
        into = {}
        if trial["form"] == "out":
            into = {keyword: buffer.view for keyword, buffer in zip(self.keywords, outputs)}
        self.channel.send("begin", trial=number)
        for turn in range(trial["calls"]):
            if turn in (0, trial["calls"] - 1):
                self.fill(inputs, outputs, payloads, trial["poison"])
            if trial["form"] == "functional":
                self.poison_allocator(case, trial["poison"])
            try:
                with torch.no_grad():
                    result = self.function(*arguments, **scalars, **into)
                self.synchronise()
            except Exception as error:  # whatever the candidate raises is its answer
                text = "".join(traceback.format_exception_only(error)).strip()
                self.channel.send("raised", trial=number, error=text)
                return
        if trial["form"] == "out":
            self.dump(number, [buffer.buffer for buffer in (*inputs, *outputs)])
            self.channel.send("end", trial=number)
            return
        wrong = complaint(result, case, self.device)
        returned = list(result) if isinstance(result, (tuple, list)) else [result]
        if wrong is None and any(buffer.overlaps(tensor) for tensor in returned for buffer in inputs if tensor.numel()):
            wrong = "returned a tensor that shares memory with an input"
        if wrong is not None:
            self.channel.send("malformed", trial=number, error=wrong)
            return
        self.dump(number, [*(buffer.buffer for buffer in inputs), *returned])
        self.channel.send("end", trial=number)

    def dump(self, number: int, tensors: list[torch.Tensor]) -> None:
        """Write whole buffers, guards included."""
        write_tensors(os.path.join(self.dumps_dir, f"{number}.bin"), tensors)


def play(job: dict, channel: Channel) -> None:
    """Load the package; when there is a schedule, wait for the inputs and run it."""
    torch.set_num_threads(job["threads"])
    try:
        package = load_package(job["package"])
    except BaseException as error:  # SystemExit at import is a refusal, too
        text = "".join(traceback.format_exception_only(error)).strip()
        channel.send("load-failed", error=text)
        return
    function = getattr(package, job["function"], None) if job["function"] else None
    channel.send(
        "loaded",
        operators=registered(job["namespace"]),
        has_function=callable(function),
        **environment(job["device"]),
    )
    if job["cases"]:
        if job["device"] == "cuda":
            torch.cuda.init()
        if wait_for(job["gate"]) != "go":
            return
        runner = Runner(function, job, channel)
        # PyTorch's own streams do not wait for the default stream, so a kernel that is launched there shows, too.
        with torch.cuda.stream(torch.cuda.Stream()) if job["device"] == "cuda" else contextlib.nullcontext():
            for case in job["cases"]:
                runner.start_case()
                for trial in case["trials"]:
                    runner.run(case, trial)
    channel.send("done")
