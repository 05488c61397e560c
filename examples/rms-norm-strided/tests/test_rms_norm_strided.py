"""Tests of the built kernel, as users load it: through `kernels.get_local_kernel`.

KERNEL_PATH names the folder with the built variants; default: ../dist, else ../build.
"""

import os
from pathlib import Path

import pytest
import torch
from kernels import get_local_kernel

EPS = 1e-6
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Half a unit in the last place of the dtype, relative to the value.
ROUNDING = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
# Half a unit in the last place of the smallest numbers, where the error is absolute.
SMALLEST = {torch.float32: 2.0**-126, torch.float16: 2.0**-25, torch.bfloat16: 2.0**-126}
SHAPES = [
    (1, 1),
    (3, 5),
    (7, 1000),
    (33, 127),
    (5, 4097),
    (4099, 64),
    (3000, 512),
    (2, 3, 4, 768),
    (600, 1024),
    (600, 2048),
    (513, 3072),
    (16, 8192),
    (3, 32768),
    (1, 131072),
    (0, 4096),
    (4096,),
]


def kernel_path() -> Path:
    if "KERNEL_PATH" in os.environ:
        return Path(os.environ["KERNEL_PATH"])
    project = Path(__file__).resolve().parent.parent
    published = project / "dist"
    return published if published.is_dir() else project / "build"


@pytest.fixture(scope="module", params=DEVICES)
def device(request) -> str:
    backend = request.param
    built = [p.name for p in kernel_path().rglob("*-linux") if p.is_dir()]
    token = "-cpu-" if backend == "cpu" else "-cu"
    if not any(token in name for name in built):
        pytest.skip(f"no variant for {backend} in {kernel_path()}")
    return backend


@pytest.fixture(scope="module")
def kernel(device):
    return get_local_kernel(kernel_path(), backend=device)


def oracle(input: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    x = input.double()
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight.double()


def assert_rounded_once(out: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    """One rounding to `dtype`, after float32 arithmetic with a few roundings of its own."""
    assert out.dtype == dtype
    assert out.shape == expected.shape
    relative = ROUNDING[dtype] + 2.0**-20
    error = (out.double() - expected).abs()
    excess = error - (expected.abs() * relative + SMALLEST[dtype])
    assert not (excess > 0).any(), f"max error {error.max().item():.3e}"
    assert not out.isnan().any()


def make(shape, dtype, device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    input = torch.randn(shape, generator=generator).to(dtype).to(device)
    weight = torch.randn(shape[-1], generator=generator).to(dtype).to(device)
    return input, weight


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matches_float64(kernel, device, shape, dtype):
    input, weight = make(shape, dtype, device)
    before = input.clone(), weight.clone()
    out = kernel.rms_norm(input, weight, EPS)
    assert out.is_contiguous()
    assert_rounded_once(out, oracle(input, weight), dtype)
    assert torch.equal(input, before[0]) and torch.equal(weight, before[1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_out_is_written_and_nothing_beyond(kernel, device, dtype):
    input, weight = make((9, 1000), dtype, device)
    buffer = torch.full((11, 1003), float("nan"), dtype=dtype, device=device)
    out = buffer[1:10, 1:1001]
    assert kernel.rms_norm(input, weight, EPS, out=out) is out
    assert_rounded_once(out, oracle(input, weight), dtype)
    out.fill_(float("nan"))
    assert buffer.isnan().all()


def test_in_place(kernel, device):
    for hidden in (1000, 4096, 40000):
        input, weight = make((5, hidden), torch.float32, device)
        expected = oracle(input, weight)
        kernel.rms_norm(input, weight, EPS, out=input)
        assert_rounded_once(input, expected, torch.float32)


@pytest.mark.parametrize("offset", [0, 1, 8])
def test_unaligned_and_strided_rows(kernel, device, offset):
    wide, _ = make((6, 5000), torch.bfloat16, device)
    weight = make((1, 4096), torch.bfloat16, device)[1]
    input = wide[:, offset : offset + 4096]
    assert_rounded_once(kernel.rms_norm(input, weight, EPS), oracle(input, weight), torch.bfloat16)


def test_leading_axes_that_are_not_evenly_spaced(kernel, device):
    storage, _ = make((4, 6, 256), torch.float16, device)
    weight = make((1, 128), torch.float16, device)[1]
    for input in (storage[:, 1:4, :128], storage.transpose(0, 1)[..., :128], storage[:1, :, :128].expand(3, 6, 128)):
        assert_rounded_once(kernel.rms_norm(input, weight, EPS), oracle(input, weight), torch.float16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_edge_values(kernel, device, dtype):
    weight = torch.ones(300, dtype=dtype, device=device)
    zeros = torch.zeros(2, 300, dtype=dtype, device=device)
    assert torch.equal(kernel.rms_norm(zeros, weight, EPS), zeros)
    tiny = torch.full((2, 300), 1e-5, dtype=dtype, device=device)
    assert_rounded_once(kernel.rms_norm(tiny, weight, EPS), oracle(tiny, weight), dtype)
    large = torch.full((2, 300), 60000.0, dtype=dtype, device=device)
    assert_rounded_once(kernel.rms_norm(large, weight, EPS), oracle(large, weight), dtype)
    broken = zeros.clone()
    broken[0, 17] = float("nan")
    out = kernel.rms_norm(broken, weight, EPS)
    assert out[0].isnan().all() and torch.equal(out[1], zeros[1])


def test_is_deterministic(kernel, device):
    input, weight = make((257, 4096), torch.bfloat16, device)
    first = kernel.rms_norm(input, weight, EPS)
    for _ in range(3):
        assert torch.equal(kernel.rms_norm(input, weight, EPS), first)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients(kernel, device, dtype):
    input, weight = make((4, 9, 160), dtype, device)
    grad = make((4, 9, 160), dtype, device, seed=1)[0]
    input.requires_grad_()
    weight.requires_grad_()
    kernel.rms_norm(input, weight, EPS).backward(grad)
    exact = [t.detach().double().requires_grad_() for t in (input, weight)]
    oracle(*exact).backward(grad.double())
    for ours, theirs in ((input.grad, exact[0].grad), (weight.grad, exact[1].grad)):
        assert ours.dtype == dtype
        scale = theirs.abs().max()
        assert ((ours.double() - theirs).abs() <= scale * (2 * ROUNDING[dtype] + 2.0**-18)).all()


def test_compiles_without_graph_breaks(kernel, device):
    def model(input, weight):
        return torch.relu(kernel.rms_norm(input * 2, weight, EPS)) + 1

    torch._dynamo.reset()
    input, weight = make((8, 256), torch.float32, device)
    input.requires_grad_()
    weight.requires_grad_()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    result = compiled(input, weight)
    torch.testing.assert_close(result, model(input, weight))
    result.sum().backward()
    compiled_grads = input.grad, weight.grad
    input.grad = weight.grad = None
    model(input, weight).sum().backward()
    torch.testing.assert_close(compiled_grads[0], input.grad)
    torch.testing.assert_close(compiled_grads[1], weight.grad)


def test_compiles_with_out(kernel, device):
    def model(input, weight, out):
        kernel.rms_norm(input, weight, EPS, out=out)
        return out + 1

    torch._dynamo.reset()
    input, weight = make((8, 256), torch.float32, device)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    result = compiled(input, weight, torch.empty_like(input))
    torch.testing.assert_close(result, kernel.rms_norm(input, weight, EPS) + 1)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(kernel, device, requires_grad):
    input, weight = make((6, 200), torch.float32, device)
    ops = kernel._ops.ops
    torch.library.opcheck(ops.rms_norm_out, (torch.empty_like(input), input, weight, EPS))
    input.requires_grad_(requires_grad)
    weight.requires_grad_(requires_grad)
    torch.library.opcheck(ops.rms_norm, (input, weight, EPS))


def test_layer(kernel, device):
    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(64, device=device))
            self.variance_epsilon = 1e-5

    module = Norm()
    input = torch.randn(3, 64, device=device)
    out = kernel.layers.RMSNorm.forward(module, input)
    assert_rounded_once(out.detach(), oracle(input, module.weight.detach(), 1e-5), torch.float32)


def test_errors_say_what_is_wrong(kernel, device):
    input, weight = make((4, 64), torch.float32, device)
    cases = [
        (dict(input=input, weight=weight[:32]), "weight must have the shape"),
        (dict(input=input, weight=weight.half()), "dtype of input"),
        (dict(input=input.double(), weight=weight.double()), "float32, float16 or bfloat16"),
        (dict(input=input.T, weight=weight[:4]), "last axis of input must be contiguous"),
        (dict(input=input[0, 0], weight=weight), "at least one axis"),
        (dict(input=input, weight=weight, out=input[:3]), "out must have the shape"),
        (dict(input=input, weight=weight, out=input.half()), "out must have the dtype"),
        (dict(input=input, weight=weight, out=torch.empty(64, 4, device=device).T), "last axis of out"),
    ]
    for arguments, message in cases:
        with pytest.raises(RuntimeError, match=message):
            kernel.rms_norm(**arguments)
    with pytest.raises(RuntimeError, match="out= has no gradient"):
        kernel.rms_norm(input, weight.clone().requires_grad_(), out=torch.empty_like(input))


def test_calls_outside_of_measured_ranges_are_pytorchs(kernel, device, monkeypatch):
    number = 0 if device == "cuda" else -1
    monkeypatch.setattr(kernel.dispatch, "_TABLES", {"this device": {}})
    monkeypatch.setattr(kernel.dispatch, "_KNOWN", {(number, torch.float32): ((64, 128, 2, 8),)})
    for shape, pytorchs in [((2, 64), False), ((2, 4, 128), False), ((1, 64), True), ((9, 64), True), ((4, 256), True)]:
        input, weight = make(shape, torch.float32, device)
        assert kernel.dispatch.pytorch_serves(input, weight) == pytorchs, shape
        output = kernel.rms_norm(input, weight, EPS)
        assert output.dtype == input.dtype and output.shape == input.shape
        torch.testing.assert_close(output, torch.nn.functional.rms_norm(input, shape[-1:], weight, EPS))
    # What the kernel refuses is refused by the kernel.
    assert not kernel.dispatch.pytorch_serves(input, weight.half())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_runs_on_the_current_stream(kernel, device):
    if device != "cuda":
        pytest.skip("streams are a matter of the GPU")
    input, weight = make((2048, 4096), torch.bfloat16, device)
    out = torch.empty_like(input)
    graph = torch.cuda.CUDAGraph()
    kernel.rms_norm(input, weight, EPS, out=out)
    with torch.cuda.graph(graph):
        kernel.rms_norm(input, weight, EPS, out=out)
    input.copy_(make((2048, 4096), torch.bfloat16, device, seed=3)[0])
    graph.replay()
    torch.cuda.synchronize()
    assert_rounded_once(out, oracle(input, weight), torch.bfloat16)
