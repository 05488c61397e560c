"""Tests of the built kernel, as users load it: through `kernels.get_local_kernel`.

KERNEL_PATH names the folder with the built variants; default: ../dist, else ../build. `kernelwright verify` is stricter:
it knows the bound of every element, and tries values that break kernels.
"""

import math
import os
import sys
from pathlib import Path

import pytest
import torch
from kernels import get_local_kernel
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import reference

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
BUILT = ["cpu", "cuda"]
DTYPES = [{"T": torch.bfloat16}, {"T": torch.float16}, {"T": torch.float32}]
CASES = {
    "few-elements": ({"rows": 3, "vocabulary": 3}, [], {}),
    "short-rows": ({"rows": 301, "vocabulary": 40}, [], {}),
    "odd-vocabulary": ({"rows": 37, "vocabulary": 4097}, [], {}),
    "gpt-2": ({"rows": 5, "vocabulary": 50257}, [], {}),
    "one-row": ({"rows": 1, "vocabulary": 32000}, [], {}),
    "llama-3": ({"rows": 3, "vocabulary": 128256}, [], {}),
    "no-rows": ({"rows": 0, "vocabulary": 4096}, [], {}),
    "ignoring-ones": ({"rows": 33, "vocabulary": 1003}, [], {"ignore_index": 1}),
    "rows-16x128256": ({"rows": 16, "vocabulary": 128256}, [], {}),
    "cpu-16x32000": ({"rows": 16, "vocabulary": 32000}, [], {}),
    "cpu-128x32000": ({"rows": 128, "vocabulary": 32000}, [], {}),
    "cpu-32x128256": ({"rows": 32, "vocabulary": 128256}, [], {}),
}
# What gradients, torch.compile and opcheck are tried with: the smallest shape with two elements in each axis.
SMALL = {"rows": 3, "vocabulary": 3}
SCALARS = {}
RETURNED = [0, 1]


def kernel_path() -> Path:
    if "KERNEL_PATH" in os.environ:
        return Path(os.environ["KERNEL_PATH"])
    published = PROJECT / "dist"
    return published if published.is_dir() else PROJECT / "build"


@pytest.fixture(scope="module", params=DEVICES)
def device(request) -> str:
    backend = request.param
    built = [path.name for path in kernel_path().rglob("*-linux") if path.is_dir()]
    token = "-cpu-" if backend == "cpu" else "-cu"
    if backend not in BUILT or not any(token in name for name in built):
        pytest.skip(f"no variant for {backend} in {kernel_path()}")
    return backend


@pytest.fixture(scope="module")
def kernel(device):
    return get_local_kernel(kernel_path(), backend=device)


def make(axes, dtypes, device, without=(), seed=0):
    """The tensors of a call, in order: normal values, whole numbers of 0 and 1, None for those in `without`."""
    generator = torch.Generator().manual_seed(seed)

    def values(shape, dtype):
        if dtype.is_floating_point:
            return torch.randn(shape, generator=generator).to(dtype).to(device)
        return torch.randint(0, 2, shape, generator=generator).to(dtype).to(device)

    return [
        None if "input" in without else values([axes["rows"], axes["vocabulary"]], dtypes["T"]),
        None if "target" in without else values([axes["rows"]], torch.int64),
    ]


def copies(arguments):
    return [None if argument is None else argument.clone() for argument in arguments]


def results_of(value):
    return list(value) if isinstance(value, tuple) else [value]


def oracle(arguments, scalars=SCALARS):
    """The reference in float64, on copies."""
    wide = [a.double() if a is not None and a.is_floating_point() else a for a in copies(arguments)]
    return results_of(reference.cross_entropy(*wide, **scalars))


def run(kernel, arguments, scalars=SCALARS):
    """Every output of the operation, those in place too, in the order of the reference."""
    returned = kernel.cross_entropy(*arguments, **scalars)
    returned = [] if returned is None else results_of(returned)
    outputs = []
    outputs.append(returned[0])
    outputs.append(returned[1])
    return outputs


def assert_close(result, expected):
    assert result.shape == expected.shape
    assert result.is_contiguous()
    if not result.dtype.is_floating_point:
        assert torch.equal(result.to(torch.int64), expected.to(torch.int64))
        return
    expected = expected.double()
    error = (result.double() - expected).abs()
    scale = expected.abs().mean() if expected.numel() else 0.0
    # A rounding to the dtype, and a little for the float32 arithmetic before it.
    allowed = expected.abs() * torch.finfo(result.dtype).eps * 1 + scale * 1e-5 + torch.finfo(result.dtype).tiny + 1e-7
    assert (error <= allowed).all(), f"largest error {error.max().item():.3e}"


@pytest.mark.parametrize("dtypes", DTYPES, ids=lambda d: "-".join(str(v).removeprefix("torch.") for v in d.values()))
@pytest.mark.parametrize("case", CASES)
def test_matches_float64(kernel, device, case, dtypes):
    axes, without, scalars = CASES[case]
    arguments = make(axes, dtypes, device, without)
    before = copies(arguments)
    expected = oracle(arguments, scalars)
    for result, exact in zip(run(kernel, arguments, scalars), expected, strict=True):
        assert_close(result, exact)
    overwritten = []
    for place, (is_now, was) in enumerate(zip(arguments, before)):
        if was is not None and place not in overwritten:
            assert torch.equal(is_now, was)


@pytest.mark.parametrize("dtypes", DTYPES, ids=lambda d: "-".join(str(v).removeprefix("torch.") for v in d.values()))
def test_out(kernel, device, dtypes):
    arguments = make(SMALL, dtypes, device)
    expected = oracle(arguments)
    first = results_of(kernel.cross_entropy(*copies(arguments), **SCALARS))
    outs = [torch.full_like(result, 1) for result in first]
    keywords = {**SCALARS, **dict(zip(['loss', 'lse'], outs))}
    returned = results_of(kernel.cross_entropy(*arguments, **keywords))
    for place, out, result in zip(RETURNED, outs, returned, strict=True):
        assert result is out
        assert_close(out, expected[place])


def test_any_number_of_leading_axes(kernel, device):
    axes = {**SMALL, "rows": 6}
    dtypes = DTYPES[0]
    flat = make(axes, dtypes, device)
    expected = run(kernel, copies(flat))
    for leading in ((2, 3), (1, 6, 1), (2, 1, 3)):
        arguments = [
            a if a is None or place not in [0, 1] else a.reshape(*leading, *a.shape[1:]).clone()
            for place, a in enumerate(flat)
        ]
        for result, exact in zip(run(kernel, arguments), expected, strict=True):
            assert torch.equal(result, exact.reshape(result.shape))
            assert tuple(result.shape[: len(leading)]) == leading


def displaced(tensor):
    """The same values in memory that begins one element behind an aligned address, as slices do."""
    if tensor is None:
        return None
    moved = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)[1:].view(tensor.shape)
    return moved.copy_(tensor)


@pytest.mark.parametrize("dtypes", DTYPES, ids=lambda d: "-".join(str(v).removeprefix("torch.") for v in d.values()))
@pytest.mark.parametrize("case", CASES)
def test_tensors_may_begin_anywhere(kernel, device, case, dtypes):
    axes, without, scalars = CASES[case]
    arguments = make(axes, dtypes, device, without)
    expected = run(kernel, copies(arguments), scalars)
    given = [place for place, argument in enumerate(arguments) if argument is not None]
    for moved in (*([place] for place in given), given):
        changed = [displaced(a) if place in moved else a for place, a in enumerate(copies(arguments))]
        for result, exact in zip(run(kernel, changed, scalars), expected, strict=True):
            assert torch.equal(result, exact)
    outs = [displaced(torch.full_like(expected[place], 1)) for place in RETURNED]
    kernel.cross_entropy(*copies(arguments), **scalars, **dict(zip(['loss', 'lse'], outs)))
    for place, out in zip(RETURNED, outs, strict=True):
        assert torch.equal(out, expected[place])


def test_is_deterministic(kernel, device):
    arguments = make(SMALL, DTYPES[0], device)
    first = run(kernel, copies(arguments))
    for _ in range(3):
        for result, earlier in zip(run(kernel, copies(arguments)), first, strict=True):
            assert torch.equal(result, earlier)


@pytest.mark.parametrize("dtypes", DTYPES, ids=lambda d: "-".join(str(v).removeprefix("torch.") for v in d.values()))
def test_gradients(kernel, device, dtypes):
    arguments = make(SMALL, dtypes, device)
    places = [0]
    exact = [a.double() if a is not None and a.is_floating_point() else a for a in copies(arguments)]
    for place in places:
        arguments[place].requires_grad_()
        exact[place].requires_grad_()
    results = [r for r in run(kernel, arguments) if r.requires_grad]
    expected = [r for r in results_of(reference.cross_entropy(*exact, **SCALARS)) if r.requires_grad]
    generator = torch.Generator().manual_seed(1)
    grads = [torch.randn(r.shape, generator=generator).to(r.dtype).to(device) for r in results]
    torch.autograd.backward(results, grads)
    torch.autograd.backward(expected, [grad.double() for grad in grads])
    for place in places:
        ours, theirs = arguments[place].grad, exact[place].grad
        assert ours.dtype == arguments[place].dtype
        assert ((ours.double() - theirs).abs() <= theirs.abs().max() * (2 * torch.finfo(ours.dtype).eps + 1e-5)).all()


def test_calls_without_gradients_compute_the_same(kernel, device):
    """They go past autograd: the bits are the same, nothing is recorded, and a trace still sees one operator."""
    arguments = make(SMALL, DTYPES[0], device)
    wanting = copies(arguments)
    for place in [0]:
        wanting[place].requires_grad_()
    expected = run(kernel, wanting)
    assert any(result.requires_grad for result in expected)
    with torch.no_grad():
        ways = [run(kernel, wanting)]
    with torch.inference_mode():
        ways.append(run(kernel, copies(arguments)))
    ways.append(run(kernel, copies(arguments)))
    traced = make_fx(lambda *given: run(kernel, list(given)))(*copies(arguments))
    ways.append(traced(*copies(arguments)))
    for results in ways:
        for result, exact in zip(results, expected, strict=True):
            assert torch.equal(result, exact)
            assert not result.requires_grad
    operators = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert kernel._ops.ops.cross_entropy.default in operators
    with FakeTensorMode() as mode:
        fakes = run(kernel, [None if argument is None else mode.from_tensor(argument) for argument in arguments])
    for fake, exact in zip(fakes, expected, strict=True):
        assert isinstance(fake, FakeTensor)
        assert (fake.shape, fake.dtype) == (exact.shape, exact.dtype)


def test_compiled_calls_write_to_new_tensors_if_nothing_wants_a_gradient(kernel, device):
    """Compiled code starts such a call in a fraction of the time. With a gradient, a call is the operator that has it."""
    arguments = make(SMALL, DTYPES[0], device)

    def operators(wanting):
        torch._dynamo.reset()
        seen = []

        def keep(graph, inputs):
            seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
            return graph

        given = copies(arguments)
        for place in [0] if wanting else ():
            given[place].requires_grad_()
        results = torch.compile(lambda *a: run(kernel, list(a)), fullgraph=True, backend=keep)(*given)
        assert any(result.requires_grad for result in results) == wanting
        return [name for name in seen if "cross_entropy" in name]

    assert all("cross_entropy_out" in name for name in operators(False))
    assert not any("cross_entropy_out" in name for name in operators(True))


def test_compiles_without_graph_breaks(kernel, device):
    torch._dynamo.reset()
    arguments = make(SMALL, DTYPES[0], device)
    with torch.no_grad():
        expected = run(kernel, copies(arguments))
        compiled = torch.compile(lambda *a: run(kernel, list(a)), fullgraph=True, backend="aot_eager")
        for result, exact in zip(compiled(*arguments), expected, strict=True):
            assert torch.equal(result, exact)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(kernel, device, requires_grad):
    arguments = make(SMALL, DTYPES[0], device)
    scalars = list({"ignore_index": -100, **SCALARS}.values())
    ops = kernel._ops.ops
    outs = [torch.empty_like(r) for r in results_of(kernel.cross_entropy(*copies(arguments), **SCALARS)) if r is not None]
    torch.library.opcheck(ops.cross_entropy_out, (*outs, *copies(arguments), *scalars))
    if requires_grad:
        for place in [0]:
            arguments[place].requires_grad_()
    torch.library.opcheck(ops.cross_entropy, (*arguments, *scalars))


def test_errors_say_what_is_wrong(kernel, device):
    arguments = make(SMALL, DTYPES[0], device)
    first = 0

    def refused(change, message):
        changed = copies(arguments)
        changed[first] = change(changed[first])
        with pytest.raises(RuntimeError, match=message):
            kernel.cross_entropy(*changed, **SCALARS)

    refused(lambda t: t.to(torch.complex64), "must be")
    if arguments[first].dim() > 1:
        refused(lambda t: t.transpose(0, -1).contiguous().transpose(0, -1), "must be contiguous")


def test_all_tensors_are_on_one_device(kernel, device):
    if device != "cuda" or len(make(SMALL, DTYPES[0], "cpu")) < 2:
        pytest.skip("needs two tensors, and a GPU")
    for away in range(len(make(SMALL, DTYPES[0], device))):
        arguments = make(SMALL, DTYPES[0], device)
        arguments[away] = arguments[away].cpu()
        with pytest.raises((NotImplementedError, RuntimeError)):
            kernel.cross_entropy(*arguments, **SCALARS)


def test_runs_on_the_stream_of_the_caller(kernel, device):
    if device != "cuda":
        pytest.skip("streams are a matter of the GPU")
    arguments = make(SMALL, DTYPES[0], device)
    expected = run(kernel, copies(arguments))
    late = [None if a is None else torch.zeros_like(a) for a in arguments]
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.no_grad(), torch.cuda.stream(stream):
        # The inputs are there only when the GPU has waited for a while; work on another stream does not wait.
        torch.cuda._sleep(20_000_000)
        for now, was in zip(late, arguments):
            if was is not None:
                now.copy_(was)
        results = run(kernel, late)
    stream.synchronize()
    for result, exact in zip(results, expected, strict=True):
        assert torch.equal(result, exact)


def test_tensors_may_have_more_elements_than_32_bits_count(kernel, device):
    if device != "cuda":
        pytest.skip("takes long on a processor")
    axes = {**SMALL, "rows": 64}
    block = make(axes, DTYPES[0], device)
    largest = max(a.numel() for place, a in enumerate(block) if a is not None and place in [0, 1])
    times = 2**31 // largest + 1
    elements = times * sum(a.numel() for a in block if a is not None)
    if torch.cuda.mem_get_info()[0] < 4 * elements * max(a.element_size() for a in block if a is not None):
        pytest.skip("needs more memory")
    expected = run(kernel, copies(block))
    arguments = [
        a if a is None or place not in [0, 1] else a.repeat(times, *(1 for _ in a.shape[1:]))
        for place, a in enumerate(block)
    ]
    for result, exact in zip(run(kernel, arguments), expected, strict=True):
        if result.shape[:1] == exact.shape[:1]:
            continue  # it has no leading axis
        for part in (result[: len(exact)], result[-len(exact) :], result[len(result) // 2 // 64 * 64 :][: len(exact)]):
            assert torch.equal(part, exact)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_is_captured_in_a_graph(kernel, device):
    if device != "cuda":
        pytest.skip("graphs are a matter of the GPU")
    arguments = make(SMALL, DTYPES[0], device)
    expected = run(kernel, copies(arguments))
    fresh = copies(arguments)
    with torch.no_grad():
        run(kernel, copies(arguments))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = run(kernel, fresh)
    for now, was in zip(fresh, arguments):
        if was is not None:
            now.copy_(was)
    graph.replay()
    torch.cuda.synchronize()
    for result, exact in zip(results, expected, strict=True):
        assert torch.equal(result, exact)
