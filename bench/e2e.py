#!/usr/bin/env python3
"""A whole model with kernels and without: how long its phases take, and how far its results are off.

    python3 bench/e2e.py qwen3-8b PACKAGE... --out DATE-GPU-qwen3-8b.jsonl
    python3 bench/e2e.py mine.py:model PACKAGE...     # a function that returns a module and the arguments of a call
    python3 bench/e2e.py qwen3-8b PACKAGE... --small --cpu

MODEL is a file of bench/models, without its ending: the sizes of a public architecture, whose weights are drawn in the dtype of
--dtype. PACKAGE is an importable package with `inject`, as `kernelwright build` leaves it: build/VARIANT, or
.kernelwright/artifacts/VARIANT. It is put into the model by `inject`, which compares each module with the package's reference.

The phases are those of the file: `prefill L` (one sequence of L tokens, the logits of the last), `decode B` (one token for
each of B sequences, after `context` tokens that a cache has), `train B L` (forward and backward), `forward B` (images). The
contenders are the model as it is (`eager`), with the packages (`kernels`), with torch.compile's default mode (`compile`), and
with both (`compile + kernels`); for `decode` also in a CUDA graph with a static cache (`graph`, `graph + kernels`). They take
turns in rounds. A line on stdout for each phase has the milliseconds of each contender (median of the rounds), the ratios with
the middle 95% of 2,000 resampled rounds, and the peak memory. `share` is the part of eager's GPU time that the replaced modules
take, and `at most` what the phase would gain if they took none.

A line `numbers` compares logits or results with those of a copy in float32: the norm of the error by that of the results, for
the model as it is and with the packages, the divergence of the predictions, and how many of 64 greedy tokens are the same. An
error of more than twice that of the model as it is fails: the program ends with 1.

A second start with the same --out goes on where the first one ended. Needs torch, the library of the model, and a GPU unless
--cpu is given.
"""

import argparse
import copy
import gc
import importlib
import importlib.util
import json
import random
import statistics
import sys
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import machine  # noqa: E402

try:
    import torch
except ImportError:
    sys.exit("e2e.py needs PyTorch: run it with a Python that imports torch")
from phases import phases, tokens  # noqa: E402

MODELS = Path(__file__).parent / "models"
#: What each contender is compared with.
BASES = {"kernels": "eager", "compile": "eager", "compile + kernels": "compile", "graph + kernels": "graph"}
#: A sample calls the model until this many seconds are over.
SAMPLE = 0.05
#: The error with packages is at most this many times that of the model as it is.
WORST = 2.0
#: An error of float32 arithmetic, which a model in float32 has none of beside itself.
NEGLIGIBLE = 1e-5
#: Tokens of the comparison in float32, and of the greedy continuation.
COMPARED, GREEDY = 256, 64


def tell(text):
    print(text, file=sys.stderr, flush=True)


def fail(text):
    tell(text)
    sys.exit(2)


# The model


def read(options):
    """What the file of a model says; with --small, the sizes of a small one."""
    path = MODELS / f"{options.model}.toml"
    if not path.exists():
        fail(f"no such model: {options.model}; there are {', '.join(sorted(one.stem for one in MODELS.glob('*.toml')))}")
    facts = tomllib.loads(path.read_text(encoding="utf-8"))
    if options.small:
        facts["values"].update(facts["small"])
        facts["phases"] = {name: small(name, sizes) for name, sizes in facts["phases"].items()}
    return facts


def small(name, sizes):
    """The sizes of a phase for a small model."""
    if name == "context":
        return 16
    return {"prefill": [48], "decode": [1, 2], "train": [[2, 24]], "forward": [1, 2]}[name]


def made(facts, options):
    """The model on its device, and the arguments of a call where a person's function has them."""
    if ":" in options.model:
        file, function = options.model.rsplit(":", 1)
        spec = importlib.util.spec_from_file_location("person", file)
        if spec is None or not Path(file).exists():
            fail(f"no such Python file: {file}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if not hasattr(module, function):
            fail(f"{file} has no function `{function}`; it must return a module and the arguments of a call")
        returned = getattr(module, function)()
        if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], torch.nn.Module)):
            fail(f"`{function}` of {file} must return a module and the arguments of a call: (module, [tensor, ...])")
        model, arguments = returned
        return model.to(options.device), [one.to(options.device) for one in arguments]
    try:
        library = importlib.import_module(facts["library"])
    except ImportError:
        fail(f"{options.model} needs the Python package {facts['library']}; install it with pip")
    config = getattr(library, facts["config"])(**facts["values"])
    build = getattr(library, facts["class"])
    with torch.device("meta"):
        needed = sum(one.numel() for one in build(config).parameters()) * torch.finfo(options.dtype).bits // 8
    if options.device == "cuda":
        free, _ = torch.cuda.mem_get_info()
        if needed > free * 0.9:
            fail(f"{options.model} has {needed / 1e9:.1f} GB of weights, and the GPU has {free / 1e9:.1f} GB free")
    tell(f"{options.model}: {needed / 1e9:.2f} GB of weights")
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(options.dtype)
    try:
        with torch.device(options.device):
            model = build(config)
    finally:
        torch.set_default_dtype(before)
    return model.to(options.dtype).eval(), None


def load(folder):
    """A package, imported by its file."""
    folder = Path(folder).resolve()
    name = f"e2e_{folder.parent.parent.parent.name}_{folder.parent.name}".replace("-", "_").replace(".", "_")
    if not (folder / "__init__.py").exists():
        fail(f"no package in {folder}: name a folder with __init__.py, such as build/VARIANT")
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    if not hasattr(package, "inject"):
        fail(f"{folder} has no `inject`; generate its project again with this version of kernelwright")
    return package


class Switch:
    """Puts the packages into the model and takes them out, without comparing them again."""

    def __init__(self, model, packages):
        self.model, plain = model, {name: dict(vars(one)) for name, one in model.named_modules()}
        self.report = [str(package.inject(model)) for package in packages]
        after = {name: vars(one).get("forward") for name, one in model.named_modules()}
        self.own = {name: own for name, own in after.items() if own is not plain[name].get("forward")}
        self.before = {name: plain[name].get("forward") for name in self.own}
        self.put(on=False)

    def put(self, on):
        for name, forward in self.own.items():
            module = self.model.get_submodule(name)
            if on:
                module.forward = forward
            elif self.before[name] is not None:
                module.forward = self.before[name]
            else:
                vars(module).pop("forward", None)


# Times


def synchronize(options):
    if options.device == "cuda":
        torch.cuda.synchronize()


def seconds(run, options):
    """Seconds of a call, the mean of those of a sample."""
    synchronize(options)
    begun, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begun < SAMPLE:
        run()
        synchronize(options)
        calls += 1
    return (time.perf_counter() - begun) / calls


def resampled(ratios):
    """The median of ratios, with the middle 95% of the medians of resampled rounds."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return {"ratio": round(statistics.median(ratios), 4), "low": round(medians[50], 4), "high": round(medians[1949], 4)}


def in_a_line(error):
    """An error in a few words."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def contenders(model, switch, phase, failed, options):
    """The calls of a phase by name, each with whether the packages are in the model; `failed` gets what cannot be captured."""
    run = phase.make()
    found = {"eager": (lambda: run(model), False), "kernels": (lambda: run(model), True)}
    if options.compile:
        compiled = torch.compile(model)
        found["compile"], found["compile + kernels"] = (lambda: run(compiled), False), (lambda: run(compiled), True)
    if phase.graph is not None and options.device == "cuda":
        for title, on in (("graph", False), ("graph + kernels", True)):
            switch.put(on)
            try:
                replay = phase.graph()
            except Exception as error:  # not every version of a library can be captured
                failed[title] = in_a_line(error)
                continue
            found[title] = (lambda replay=replay: replay(model), on)
    return found


def measured(model, switch, phase, options):
    """The line of a phase."""
    found, memory, failed = {}, {}, {}
    with torch.enable_grad() if phase.trains else torch.no_grad():
        calls = contenders(model, switch, phase, failed, options)
        for title, (call, on) in list(calls.items()):
            switch.put(on)
            if options.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            try:
                for _ in range(3):
                    call()
                synchronize(options)
            except Exception as error:  # a model that torch.compile does not take is measured without it
                failed[title] = in_a_line(error)
                del calls[title]
                continue
            memory[title] = torch.cuda.max_memory_allocated() if options.device == "cuda" else None
        for turn in range(options.rounds):
            tell(f"{phase.title}: round {turn + 1} of {options.rounds}")
            for title, (call, on) in calls.items():
                switch.put(on)
                found.setdefault(title, []).append(seconds(call, options))
        switch.put(on=False)
        measures_share = options.device == "cuda" and "eager" in calls
        share = replaced_share(calls["eager"][0], switch, options) if measures_share else None
    over = {}
    for title, base in BASES.items():
        if title in found and base in found:
            ratios = [before / after for before, after in zip(found[base], found[title], strict=True)]
            over[f"{title} over {base}"] = resampled(ratios)
    return {
        "phase": phase.title,
        "ms": {title: round(statistics.median(values) * 1e3, 4) for title, values in found.items()},
        "over": over,
        "peak bytes": memory,
        "failed": failed,
        "share": share,
        "at most": round(1 / (1 - share), 4) if share else None,
    }


def replaced_share(call, switch, options):
    """The share of GPU time that the modules take which the packages replace."""
    from torch.profiler import ProfilerActivity, profile, record_function

    ranges, handles = [], []

    def enter(module, arguments):
        ranges.append(record_function("replaced"))
        ranges[-1].__enter__()

    def leave(module, arguments, result):
        ranges.pop().__exit__(None, None, None)

    for name in switch.own:
        module = switch.model.get_submodule(name)
        handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    try:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
            call()
            synchronize(options)
    finally:
        for one in handles:
            one.remove()
    events, place = trace.key_averages(), torch.autograd.DeviceType
    whole = sum(one.self_device_time_total for one in events if one.device_type == place.CUDA)
    inside = [one for one in events if one.key == "replaced" and one.device_type == place.CPU]
    part = sum(one.device_time_total for one in inside)
    return round(part / whole, 4) if whole else None


# Numbers


def results(model, facts, arguments, options):
    """Logits of a model, or its first result, in float32 on the host."""
    with torch.no_grad():
        if facts is None:
            floats = [one.to(model_dtype(model)) if one.is_floating_point() else one for one in arguments]
            found = model(*[one.to(options.device) for one in floats])
            return (found[0] if isinstance(found, (tuple, list)) else found).float().cpu()
        if facts["kind"] == "language":
            length = min(COMPARED, 48) if options.small else COMPARED
            return model(input_ids=tokens(facts, 1, length, options.device), use_cache=False).logits.float().cpu()
        size = facts["values"]["image_size"]
        images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(2))
        return model(pixel_values=images.to(options.device, model_dtype(model))).last_hidden_state.float().cpu()


def model_dtype(model):
    """The dtype of a model's parameters."""
    return next((one.dtype for one in model.parameters() if one.is_floating_point()), torch.float32)


def greedy(model, facts, options):
    """The tokens that a model goes on with."""
    ids = tokens(facts, 1, 16, options.device)
    with torch.no_grad():
        return model.generate(ids, max_new_tokens=GREEDY, do_sample=False, pad_token_id=0)[0, 16:].tolist()


def compared(model, switch, facts, arguments, options):
    """The line that compares results with those in float32."""
    found, continued = {}, {}
    speaks = facts is not None and facts["kind"] == "language"
    for title, on in (("eager", False), ("kernels", True)):
        switch.put(on)
        found[title] = results(model, facts, arguments, options)
        if speaks:
            continued[title] = greedy(model, facts, options)
    switch.put(on=False)
    place = options.device if fits_twice(model, options) else "cpu"
    exact_model = copy.deepcopy(model).float().to(place)
    exact = results(exact_model, facts, arguments, argparse.Namespace(**{**vars(options), "device": place}))
    del exact_model
    line = {"phase": "numbers"}
    for title, got in found.items():
        error = got - exact
        line[title] = {"error": float(error.norm() / exact.norm()), "largest": float(error.abs().max() / exact.abs().max())}
        if speaks:
            right, given = exact.log_softmax(-1), got.log_softmax(-1)
            line[title]["divergence"] = float((right.exp() * (right - given)).sum(-1).mean())
            line[title]["same choice"] = float((exact.argmax(-1) == got.argmax(-1)).float().mean())
    if speaks:
        line["greedy tokens alike"] = sum(a == b for a, b in zip(continued["eager"], continued["kernels"], strict=True))
    line["within"] = line["kernels"]["error"] <= WORST * line["eager"]["error"] + NEGLIGIBLE
    return line


def fits_twice(model, options):
    """Whether the device has room for a copy in float32."""
    if options.device != "cuda":
        return True
    needed = 4 * sum(one.numel() for one in model.parameters())
    return needed * 1.2 < torch.cuda.mem_get_info()[0]


# The program


def run(options):
    """Every phase that is not in the file yet; the exit status."""
    facts = None if ":" in options.model else read(options)
    packages = [load(folder) for folder in options.packages]
    model, arguments = made(facts, options)
    switch = Switch(model, packages)
    for text in switch.report:
        tell(text)
    if not switch.own:
        fail("nothing in the model computes what the packages do; the reasons are above")
    about = {
        "model": options.model,
        "small": options.small,
        "packages": [Path(one).name for one in options.packages],
        "replaced": len(switch.own),
        "dtype": str(options.dtype).removeprefix("torch."),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "torch": torch.__version__,
        **machine.described(),
    }
    lines = options.out.read_text(encoding="utf-8").splitlines() if options.out and options.out.exists() else []
    done = {line["phase"]: line for line in map(json.loads, lines) if line["model"] == options.model}

    def add(line):
        done[line["phase"]] = line
        lines.append(json.dumps({**line, **about, "date": time.strftime("%Y-%m-%d")}))
        print(lines[-1], flush=True)
        if options.out:
            unfinished = options.out.with_suffix(".part")
            unfinished.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
            unfinished.replace(options.out)

    if "numbers" not in done:
        add(compared(model, switch, facts, arguments, options))
    for phase in phases(model, facts, arguments, options):
        if phase.title not in done and (not options.only or phase.title.split()[0] in options.only):
            add(measured(model, switch, phase, options))
            gc.collect()
            if options.device == "cuda":
                torch.cuda.empty_cache()
    if not done["numbers"]["within"]:
        tell(f"with the packages, the error is more than {WORST:g} times that of the model as it is")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a file of bench/models, or FILE.py:FUNCTION")
    parser.add_argument("packages", nargs="+", metavar="PACKAGE", help="folders of built packages")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--small", action="store_true", help="a model with the sizes of [small]")
    parser.add_argument("--cpu", action="store_true", help="on the processor")
    parser.add_argument("--rounds", type=int, default=15, help="how often every contender has its turn")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave torch.compile out")
    parser.add_argument("--only", nargs="*", default=[], metavar="PHASE", help="these phases, such as prefill")
    parser.add_argument("--out", type=Path, help="append lines to this file, and leave out phases that it has")
    options = parser.parse_args()
    if not options.cpu and not torch.cuda.is_available():
        parser.error("there is no GPU; --cpu measures on the processor")
    options.device, options.dtype = "cpu" if options.cpu else "cuda", getattr(torch, options.dtype)
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
