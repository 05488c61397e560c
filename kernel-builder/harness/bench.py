"""Times a built package against PyTorch, interleaved; one JSON line a case on standard output.

Owns: the clocks, the order of the samples, the comparison of timed outputs with the float64 reference.
Never: decides what a sample means; ratios and intervals are computed by the program that started this.
Runs as `python -I [-S] bench.py`, with `operands.py` beside it; the request is one JSON object on standard input (`bench/harness.rs`).

Contenders: the kernel; `eager`, the reference; `fused`, the best PyTorch operator; `compile`, torch.compile of the
reference; `copy`, a plain copy that moves as many bytes. All but `copy` are called alike and allocate what they
return; only the kernel of an operation in place overwrites (`operands.py`). `copy` writes into memory that exists, since it is the ceiling and no competitor.
"""

import ctypes
import importlib.util
import json
import math
import os
import random
import site
import sys
import sysconfig
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from operands import Case, Rotation, tensors  # noqa: E402

# Seconds between two samples on the processor.
PAUSE = 0.003
MINIMUM_BLOCKS = 15
MAXIMUM_BLOCKS = 300
# The interval of the median is narrow enough when its half-width is below this fraction of it.
NARROW = 0.005
SAMPLE_NS = 200_000
HOST_SETS = 8
HOST_SET_BYTES = 256 << 20
GRAPH_CALLS = 20
GRAPH_OUTPUT_BYTES = 8 << 30
# Work that the stream's events did not see, as a factor of what they saw.
ESCAPE = 1.5
ESCAPE_SLACK_S = 100e-6
CHECKED_SETS = 3


class Refused(Exception):
    """A finding against the kernel: `kind` is a word of the protocol, the text says what was seen."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


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


def has_python_headers():
    return os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))


def contenders_of(torch, request, kernel, reference, case, rotation):
    """Every contender as a function of one input set, and those left out with the reason."""
    scalars, found, skipped = case.scalars, {}, []
    eager = getattr(reference, request["reference"]["function"])
    candidates = {"kernel": kernel, "eager": eager}
    fused = request["reference"].get("fused")
    if fused:
        candidates["fused"] = getattr(reference, fused)
    torch._dynamo.reset()
    candidates["compile"] = torch.compile(eager, dynamic=False)
    for name, function in candidates.items():
        call = lambda inputs, function=function: function(*inputs, **scalars)
        try:
            for _ in range(3):
                call(*rotation.fresh(0, 1))
            if case.device == "cuda":
                torch.cuda.synchronize()
        except Exception as error:
            if name == "kernel" or (name == "eager" and not case.has_float8()):
                raise Refused("raised", f"{name}: {said(error)}") from error
            reason = said(error)
            if name == "compile" and case.device == "cpu" and not has_python_headers():
                reason = "torch.compile needs Python.h for the processor: apt install python3-dev"
            skipped.append({"name": name, "reason": reason})
            continue
        found[name] = call
    return found, skipped


def copier(torch, case, sets):
    """A copy that reads and writes as many bytes as the operation does at least, rotating like the input sets."""
    size = max(1, case.bytes // 2)
    if size >= 1 << 16:
        # A ragged end makes a copy slower than its bytes explain (up to 1.4 times, seen on an H200).
        size -= size % 4096
    pairs = [
        (torch.randint(0, 255, (size,), dtype=torch.uint8, device=case.device),
         torch.empty(size, dtype=torch.uint8, device=case.device))
        for _ in range(len(sets))
    ]
    return Rotation(pairs), lambda pair: pair[1].copy_(pair[0])


def narrow(ratios):
    """Whether the distribution-free 95% interval of the median (order statistics) is narrow."""
    ordered, count = sorted(ratios), len(ratios)
    reach = 0.98 * math.sqrt(count)
    low = ordered[max(0, int(count / 2 - reach))]
    high = ordered[min(count - 1, math.ceil(count / 2 + reach))]
    return (high - low) / 2 < NARROW * ordered[count // 2]


def blocks_of(names, take, budget, shuffler):
    """Blocks of one sample a contender, each in a new random order, until narrow or out of budget.

    The budget is held to after MINIMUM_BLOCKS blocks; whether the interval is narrow is asked every tenth block.
    """
    samples = {name: [] for name in names}
    order, started = list(names), time.perf_counter()
    for block in range(MAXIMUM_BLOCKS):
        shuffler.shuffle(order)
        for name, seconds in take(order).items():
            samples[name].append(seconds)
        taken = block + 1
        if taken < MINIMUM_BLOCKS:
            continue
        if time.perf_counter() - started > budget:
            break
        if taken % 10 == 0:
            rivals = [name for name in names if name not in ("kernel", "copy")]
            if all(narrow([b / k for b, k in zip(samples[name], samples["kernel"])]) for name in rivals):
                break
    return samples


def worst_excess(torch, case, tolerance, oracle, output):
    """The largest error of `output` as a multiple of what its arithmetic explains; infinite for a wrong shape.

    Explained: the allowed roundings to the output dtype, plus sums of `accumulated` terms whose errors behave like a
    random walk (N. Higham, T. Mary, "A new approach to probabilistic rounding error analysis", 2019), with room to
    spare: `verify` has judged the kernel more sharply; this asks whether it still computes when it is timed.
    """
    if output.shape != oracle.shape:
        return math.inf
    if output.numel() == 0:
        return 0.0
    if not output.dtype.is_floating_point:
        return 0.0 if torch.equal(output, oracle.to(output.dtype)) else math.inf
    unit = torch.finfo(output.dtype).eps
    accumulate = case.dtypes[tolerance["accumulate"]]
    summed = torch.finfo(accumulate).eps if accumulate.is_floating_point else 0.0
    exact, got = oracle.to(torch.float64), output.to(torch.float64)
    scale = exact.abs().max()
    bound = max(1, tolerance["roundings"]) * unit * exact.abs()
    bound = bound + 8 * summed * math.sqrt(case.accumulated) * scale + torch.finfo(output.dtype).tiny
    same = (exact == got) | (exact.isnan() & got.isnan())
    if output.element_size() == 1:
        # Conversions to 8 bits saturate, or give no finite number; what lies beyond the range may be either.
        largest = torch.finfo(output.dtype).max
        saturated = (got.abs() == largest) & (got.sign() == exact.sign())
        same |= (exact.abs() + bound >= largest) & (saturated | ~got.isfinite())
    excess = torch.where(same, torch.zeros_like(bound), (got - exact).abs() / bound)
    # What is NaN here is NaN on one side only, and compares false to every bound.
    return float(excess.nan_to_num(nan=math.inf, posinf=math.inf).max())


def check(torch, request, reference, case, sets, kept, where):
    """Compares outputs of timed calls, given as {set: results}, with the reference run in float64."""
    oracle_of = getattr(reference, request["reference"]["function"])
    for index in list(kept)[:CHECKED_SETS]:
        floats = [t is not None and t.dtype.is_floating_point for t in sets[index]]
        wide = [t.to(torch.float64) if is_float else t for t, is_float in zip(sets[index], floats)]
        exact = tensors(oracle_of(*wide, **case.scalars))
        got = kept[index]
        if len(exact) != len(got):
            raise Refused("wrong", f"{where}: {len(got)} outputs instead of {len(exact)}")
        for declared, one, other in zip(case.outputs, exact, got):
            excess = worst_excess(torch, case, request["tolerance"], one, other)
            if excess > 1.0:
                times = "not finite or of another shape" if excess == math.inf else f"{excess:.3g} times too far off"
                raise Refused("wrong", f"{where}: output `{declared['name']}` is {times}")


def processor_times():
    """Seconds that all processors were busy, that this process used, and now; None where the system does not tell."""
    try:
        with open("/proc/stat", encoding="ascii") as table:
            fields = [int(field) for field in table.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, _idle, _waiting, interrupt, soft, stolen = fields
    busy = (user + nice + system + interrupt + soft + stolen) / os.sysconf("SC_CLK_TCK")
    own = os.times()
    return busy, own.user + own.system, time.perf_counter()


def crowded(before, after, threads):
    """How many of the processors that the contenders were to have were taken by other processes, on average."""
    if before is None or after is None:
        return None
    busy, own, elapsed = (late - early for early, late in zip(before, after))
    others = (busy - own) / max(elapsed, 1e-9)
    spare = max(0, (os.cpu_count() or threads) - threads)
    return round(max(0.0, others - spare), 2)


def keep_freed_memory():
    """Has the C library keep what is freed, for every contender alike.

    Otherwise it gives large blocks back to the system at each call or keeps them, depending on what lies behind them in
    the heap by chance, and a sample holds hundreds of page faults or none (up to three times the time, seen on tensors
    of 1 MiB). Constants of malloc.h; 32 MiB is the largest threshold that glibc takes.
    """
    trim_threshold, mmap_threshold = -1, -3
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(mmap_threshold, 32 << 20)
    mallopt(trim_threshold, 2**31 - 1)


def measure_host(torch, request, reference, kernel, case, generator, shuffler):
    """Wall-clock time of calls on the processor: a sample is as many calls as last SAMPLE_NS, on rotating sets."""
    count = max(2, min(HOST_SETS, HOST_SET_BYTES // max(1, case.bytes)))
    sets = case.make_sets(count, generator)
    rotation = case.rotation(sets)
    calls, skipped = contenders_of(torch, request, kernel, reference, case, rotation)
    pairs, copy = copier(torch, case, sets)
    arguments = {name: rotation for name in calls} | {"copy": pairs}
    calls["copy"] = copy
    clock = time.perf_counter_ns
    kept, position = {}, dict.fromkeys(calls, 0)

    def timed(name, repeats):
        call, at = calls[name], position[name]
        arguments[name].reserve(repeats + 1)
        before, *plan = arguments[name].fresh(at - 1, repeats + 1)
        # Contenders bring thread pools of their own (torch's, that of compiled code), whose threads spin for a while
        # after their work and would take processors from the next contender.
        time.sleep(PAUSE)
        # Not timed: wakes this contender's own threads, and drives the code and data of others from the caches.
        call(before)
        position[name] = (at + repeats) % len(arguments[name])
        start = clock()
        for inputs in plan:
            result = call(inputs)
        took = clock() - start
        if name == "kernel":
            kept[(at + repeats - 1) % len(rotation) % count] = case.results(result, inputs)
        return took

    repeats = {}
    for name in calls:
        number, most = 1, arguments[name].most - 1
        while (took := min(timed(name, number) for _ in range(3))) < SAMPLE_NS and number < most:
            number = min(most, max(number + 1, math.ceil(number * min(10, 1.1 * SAMPLE_NS / max(took, 1)))))
        repeats[name] = number
    kept.clear()
    take = lambda order: {name: timed(name, repeats[name]) / repeats[name] * 1e-9 for name in order}
    before = processor_times()
    samples = blocks_of(list(calls), take, request["budget"], shuffler)
    taken = crowded(before, processor_times(), request["threads"])
    check(torch, request, reference, case, sets, kept, "host")
    return [{"regime": "host", "samples": samples, "calls": repeats, "skipped": skipped, "sets": count,
             "crowded": taken}]


def measure_cuda(torch, request, reference, kernel, case, generator, shuffler):
    """Device time in two regimes: `cold` (caches flushed before each call) and `graph` (replayed, rotating)."""
    cache = max(1 << 20, torch.cuda.get_device_properties(0).L2_cache_size)
    count = max(3, min(256, math.ceil(4 * cache / max(1, case.bytes))))
    sets = case.make_sets(count, generator)
    rotation = case.rotation(sets)
    calls, skipped = contenders_of(torch, request, kernel, reference, case, rotation)
    stream_escape(torch, calls["kernel"], rotation)
    pairs, copy = copier(torch, case, sets)
    arguments = {name: rotation for name in calls} | {"copy": pairs}
    calls["copy"] = copy
    spin = spin_cycles(torch, calls, arguments)
    cold = measure_cold(torch, request, case, calls, arguments, cache, spin, shuffler)
    check(torch, request, reference, case, sets, cold.pop("kept"), "cold")
    graph = measure_graph(torch, request, case, calls, arguments, spin, shuffler)
    check(torch, request, reference, case, sets, graph.pop("kept"), "graph")
    cold["skipped"] = skipped
    graph["skipped"] = skipped + graph["skipped"]
    return [regime | {"sets": count} for regime in (cold, graph)]


def stream_escape(torch, kernel, rotation):
    """Refuses a kernel that works where the events of its stream cannot see it."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):
        plan = rotation.fresh(0, len(rotation))
        torch.cuda.synchronize()
        start = time.perf_counter()
        before.record()
        for inputs in plan:
            kernel(inputs)
        after.record()
        torch.cuda.synchronize()
        wall = time.perf_counter() - start
    seen = before.elapsed_time(after) * 1e-3
    if wall > ESCAPE * seen + ESCAPE_SLACK_S:
        raise Refused("escape", f"{wall * 1e6:.0f} us of wall clock, {seen * 1e6:.0f} us on the stream")


def spin_cycles(torch, calls, arguments):
    """GPU cycles that hide the time the host takes to launch the slowest contender."""
    slowest = 0.0
    for name, call in calls.items():
        torch.cuda.synchronize()
        start = time.perf_counter()
        call(arguments[name][0])
        slowest = max(slowest, time.perf_counter() - start)
        torch.cuda.synchronize()
    # About 2 GHz; twice the launch time and 50 us, as launches vary.
    return int(2e9 * min(5e-3, 2 * slowest + 50e-6))


def measure_cold(torch, request, case, calls, arguments, cache, spin, shuffler):
    """One call between two events. Before it twice the L2 cache is written and then read, so that neither its inputs
    nor dirty lines of others are there, and the GPU spins while the host launches."""
    flush = torch.empty(2 * cache // 4, dtype=torch.float32, device="cuda")
    events = {name: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for name in calls}
    kept, state = {}, {"round": 0}

    def take(order):
        state["round"] += 1
        for name in order:
            index = state["round"] % len(arguments[name])
            (inputs,) = arguments[name].fresh(index, 1)
            flush.fill_(float(state["round"]))
            flush.sum()
            torch.cuda._sleep(spin)
            events[name][0].record()
            result = calls[name](inputs)
            events[name][1].record()
            if name == "kernel":
                if len(kept) == CHECKED_SETS:
                    kept.pop(next(iter(kept)))
                kept[index] = case.results(result, inputs)
        torch.cuda.synchronize()
        return {name: events[name][0].elapsed_time(events[name][1]) * 1e-3 for name in order}

    take(list(calls))
    kept.clear()
    samples = blocks_of(list(calls), take, request["budget"], shuffler)
    return {"regime": "cold", "samples": samples, "calls": dict.fromkeys(calls, 1), "kept": kept}


def measure_graph(torch, request, case, calls, arguments, spin, shuffler):
    """A CUDA graph of calls on all sets in turn, every output at an address of its own; a sample is one replay."""
    outputs = max(1, case.bytes - case.input_bytes)
    count = len(arguments["kernel"])
    number = max(count, min(GRAPH_CALLS, GRAPH_OUTPUT_BYTES // outputs))
    graphs, results, skipped = {}, {}, []
    for name, call in calls.items():
        rotation = arguments[name]
        rotation.reserve(number)
        try:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                call(rotation[0])
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results[name] = [call(rotation[step % len(rotation)]) for step in range(number)]
            graphs[name] = graph
        except Exception as error:
            torch.cuda.synchronize()
            skipped.append({"name": name, "reason": f"cannot be captured in a CUDA graph: {said(error)}"})
    if "kernel" not in graphs:
        return {"regime": "graph", "samples": {}, "calls": {}, "skipped": skipped, "kept": {}}
    events = {name: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for name in graphs}
    kept = {}
    poisoned = tensors(results["kernel"][0]) + tensors(results["kernel"][-1])

    def take(order):
        # What the kernel left in the last replay is wiped, so that the check sees what this one wrote.
        for output in poisoned:
            output.fill_(math.nan if output.dtype.is_floating_point else 1)
        for name in order:
            arguments[name].fresh(0, number)
            torch.cuda._sleep(spin)
            events[name][0].record()
            graphs[name].replay()
            events[name][1].record()
            if name == "kernel":
                for step in (0, number - 1):
                    kept[step % count] = case.results(results[name][step], arguments[name][step % len(arguments[name])])
        torch.cuda.synchronize()
        return {name: events[name][0].elapsed_time(events[name][1]) * 1e-3 / number for name in order}

    take(list(graphs))
    samples = blocks_of(list(graphs), take, request["budget"], shuffler)
    return {"regime": "graph", "samples": samples, "calls": dict.fromkeys(graphs, number), "skipped": skipped,
            "kept": kept}


def machine(torch, request):
    """What the figures belong to."""
    facts = {"torch": torch.__version__, "python": sys.version.split()[0], "threads": torch.get_num_threads(),
             "device": None, "reason": None}
    if request["device"] == "cpu":
        facts["device"] = "cpu"
    elif not torch.cuda.is_available():
        facts["reason"] = f"torch {torch.__version__} finds no CUDA device here"
    else:
        facts["device"] = torch.cuda.get_device_name(0)
    return facts


def main():
    # Lines for the program that started this go to a private copy of standard output; whatever the kernel or a
    # library prints goes to standard error.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    request = json.load(sys.stdin)

    def send(kind, **fields):
        out.write(json.dumps({"nonce": request["nonce"], "kind": kind} | fields) + "\n")
        out.flush()

    managed = os.environ.get("KERNELWRIGHT_SITE")
    if managed:
        site.addsitedir(managed)
    sys.path[:0] = filter(None, os.environ.get("KERNELWRIGHT_BESIDE", "").split(":"))
    import torch
    import torch._dynamo

    keep_freed_memory()
    torch.set_num_threads(request["threads"])
    torch.manual_seed(request["seed"])
    facts = machine(torch, request)
    send("machine", **facts)
    if facts["device"] is None:
        return
    reference = import_file("_kernelwright_reference", request["reference"]["file"])
    package = import_file(request["id"], os.path.join(request["package"], "__init__.py"), request["package"])
    kernel = getattr(package, request["call"])
    generator = torch.Generator(device=request["device"]).manual_seed(request["seed"])
    shuffler = random.Random(request["seed"])
    measure = measure_host if request["device"] == "cpu" else measure_cuda
    for description in request["cases"]:
        case = Case(torch, request, description)
        try:
            with torch.no_grad():
                regimes = measure(torch, request, reference, kernel, case, generator, shuffler)
            send("case", case=case.id, bytes=case.bytes, regimes=regimes)
        except Refused as finding:
            send("refused", case=case.id, finding=finding.kind, reason=str(finding))
        except Exception as error:
            traceback.print_exc()
            send("refused", case=case.id, finding="raised", reason=said(error))


main()
