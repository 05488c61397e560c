//! How large the terms of a result are by what the oracle samples (`harness/oracle.py`); needs a Python with torch.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::sandbox::finish;

/// Gradients of normalised rows of one element, whose terms cancel but for `eps`: those that a sample is too few for are
/// refused. The formula of the bound is that of `verify/bound.rs`, for bfloat16, two roundings and one term.
const SINGLE_ELEMENTS: &str = r#"
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import torch
from oracle import SAMPLES_OF_FEW, samples_of, terms_of

def gradient(values, dtype):
    grad_out, x, weight = (value.to(dtype) for value in values)
    scale = torch.rsqrt(x * x + 1e-6)
    x = x * scale
    weighted = grad_out * weight
    return [scale * (weighted - x * (weighted * x))]

random = torch.Generator().manual_seed(7)
inputs = [torch.randn(50_000, generator=random).bfloat16() for _ in range(3)]
exact = gradient(inputs, torch.float64)
computed = gradient(inputs, torch.float32)[0].bfloat16().double()

def refused(samples):
    terms = terms_of(gradient, exact, inputs, [1, 2], random, samples)[0]
    size = exact[0].abs()
    allowed = 2 * 2.0**-8 * size + (8 + 8) * 2.0**-24 * torch.maximum(size, terms)
    return int(((computed - exact[0]).abs() > allowed).sum())

assert refused(SAMPLES_OF_FEW) == 0
# The data is such that fewer would not do, and so many are taken where tensors are small.
assert refused(4) > 0
assert samples_of(4, [torch.zeros(1)]) == samples_of(4, [torch.zeros(128, 256)]) == SAMPLES_OF_FEW
assert samples_of(4, [torch.zeros(1), torch.zeros(1024, 1024)]) == 4
"#;

/// Sparse rows through PyTorch's own layer normalisation in float32, without a bias. A few rows have values that all but
/// cancel in the mean. The reference adds them first and loses nothing; Welford's algorithm does not. The formula is that of
/// `verify/bound.rs`, with one rounding and 64 terms. A mean in float16 stays refused.
const NEARLY_NO_MEAN: &str = r#"
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import torch
from oracle import generator, samples_of, terms_of
from values import distribution

def normalised(values, dtype, mean_dtype=None):
    x, weight = (value.to(dtype) for value in values)
    centred = x - x.to(mean_dtype or dtype).mean(-1, keepdim=True).to(dtype)
    return [centred * (centred.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight]

refused = {"torch": 0, "float16": 0}
for seed in range(12):
    shapes = enumerate([[4099, 64], [64]])
    inputs = [distribution("sparse", shape, torch.float32, generator(seed, place)) for place, shape in shapes]
    exact = normalised(inputs, torch.float64)[0]
    samples = samples_of(4, inputs)
    terms = terms_of(normalised, [exact], inputs, [0, 1], generator(seed, "terms"), samples)[0]
    row = torch.maximum(terms.amax(-1, keepdim=True), exact.square().mean(-1, keepdim=True).sqrt())
    size = torch.maximum(exact.abs(), row)
    allowed = 2.0**-24 * exact.abs().clamp_min(2.0**-126) + (8 * 64**0.5 + 8) * 2.0**-24 * size
    computed = {
        "torch": torch.nn.functional.layer_norm(inputs[0], [64], inputs[1], None, 1e-6),
        "float16": normalised(inputs, torch.float32, torch.float16)[0],
    }
    for name, result in computed.items():
        refused[name] += int(((result.double() - exact).abs() > allowed).sum())

assert refused["torch"] == 0, refused
assert refused["float16"] > 1000, refused
"#;

#[test]
fn no_honest_gradient_of_a_single_element_is_refused() {
    passes(SINGLE_ELEMENTS);
}

#[test]
fn pytorchs_own_layer_norm_passes_where_a_mean_nearly_vanishes() {
    passes(NEARLY_NO_MEAN);
}

/// Runs a script with torch; the harness's folder is its argument.
fn passes(script: &str) {
    let Some(cache) = std::env::var_os("KERNELWRIGHT_TORCH_CACHE").map(PathBuf::from) else {
        return eprintln!("skipped: KERNELWRIGHT_TORCH_CACHE names no cache with torch");
    };
    let entries = std::fs::read_dir(cache.join("python")).expect("the folder of managed Pythons");
    let site = entries.flatten().map(|entry| entry.path()).find(|site| site.join("torch").is_dir());
    let site = site.unwrap_or_else(|| panic!("no folder of {} has torch", cache.join("python").display()));
    let harness = Path::new(env!("CARGO_MANIFEST_DIR")).join("harness");
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(harness).env("PYTHONPATH", site);
    let finished = finish(&mut command);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}
