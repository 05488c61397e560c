//! What timed calls are made with (`harness/operands.py`), with stand-ins for tensors: no torch is needed.

use std::process::Command;

use super::sandbox::finish;

/// A tensor that can be cloned and copied into, and an operation whose second input is overwritten.
const STAND_INS: &str = r#"
import sys, types
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from operands import Case
from protocol import TORCH_NAMES, TensorSpec
from protocol_bench import TimedCase

class Tensor:
    def __init__(self, value):
        self.value = value
    def clone(self):
        return Tensor(self.value)
    def copy_(self, other):
        self.value = other.value

float32 = types.SimpleNamespace(itemsize=4, is_floating_point=True)
torch = types.SimpleNamespace(**{attribute: float32 for attribute in TORCH_NAMES.values()})
def tensor(name, **more):
    usual = {"shape": [2], "dtype": "f32", "omitted": False, "inplace": None, "computed": None, "seed": False, "non_negative": False}
    return TensorSpec(name=name, **{**usual, **more})
case = Case(torch, "cpu", TimedCase(
    id="case", accumulated=1, scalars={},
    inputs=[tensor("x"), tensor("residual"), tensor("bias", omitted=True)],
    outputs=[tensor("total", inplace=1), tensor("scaled")],
))
sets = [[Tensor(10 * number), Tensor(10 * number + 1), None] for number in range(2)]
"#;

fn run(script: &str) {
    let harness = concat!(env!("CARGO_MANIFEST_DIR"), "/harness");
    let mut command = Command::new("python3");
    if command.arg("--version").output().is_err() {
        eprintln!("skipped: no python3");
        return;
    }
    let mut command = Command::new("python3");
    let finished = finish(command.args(["-c", &format!("{STAND_INS}{script}"), harness]));
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}

#[test]
fn an_absent_input_has_no_bytes() {
    run("assert (case.input_bytes, case.overwritten_bytes, case.bytes) == (16, 8, 32)");
}

#[test]
fn every_call_finds_what_the_one_before_overwrote() {
    run(r"
rotation = case.rotation(sets)
rotation.reserve(5)
calls = rotation.fresh(4, 5)
# Every call has memory of its own for what it overwrites, and shares what it reads.
assert len({id(call[1]) for call in calls}) == 5 and calls[0][0] is sets[0][0]
for call in calls:
    call[1].value = -1
assert [call[1].value for call in rotation.fresh(3, 4)] == [11, 1, 11, 1]
assert (sets[0][1].value, sets[1][1].value) == (1, 11)
");
}

#[test]
fn results_are_returned_or_copies_of_what_was_overwritten() {
    run(r"
(inputs,) = case.rotation(sets).fresh(1, 1)
total, scaled = case.results(Tensor(5), inputs)
inputs[1].value = -1
assert (total.value, scaled.value) == (11, 5)
# Too few and too many values stay visible to the comparison.
assert len(case.results(None, inputs)) == 1 and len(case.results((Tensor(1), Tensor(2)), inputs)) == 3
");
}

#[test]
fn a_case_has_as_many_sets_as_a_graph_has_calls_while_they_are_small() {
    run(r"
from gpu import Station
def count(megabytes):
    return Station.count_of(60 << 20, types.SimpleNamespace(bytes=megabytes << 20))
# Four times the cache; twenty; what takes 8 GiB; three whatever they take.
assert [count(size) for size in (0, 1, 8, 128, 1024, 8192)] == [256, 240, 30, 20, 8, 3]
");
}

#[test]
fn memory_is_kept_for_the_baselines_that_a_case_can_have() {
    run(r#"
import baselines
def made(shapes, outputs=("y",), **more):
    inputs = [tensor("x", dtype="bf16", shape=shape) for shape in shapes]
    outputs = [tensor(name, dtype="bf16") for name in outputs]
    return types.SimpleNamespace(inputs=inputs, outputs=outputs, overwritten=more.get("overwritten", []))
def names(case, fused=None, without=()):
    reference = types.SimpleNamespace(fused=fused)
    return baselines.possible(types.SimpleNamespace(reference=reference, without=without), case)
rows = made([[8, 4], [4]])
assert names(rows) == ["eager", "compile", "compile-max", "copy"]
assert names(rows, fused="f", without=["compile-max"]) == ["eager", "fused", "compile", "copy"]
product = made([[2, 8, 4], [4, 6]])
assert names(product, fused="f") == list(baselines.NAMES)
# Two batches of matrices, what overwrites an input, and what has two results are no products that cuBLASLt is asked for.
for other in (made([[2, 8, 4], [2, 4, 6]]), made([[8, 4], [4, 6]], overwritten=[0]), made([[8, 4], [4, 6]], "yz")):
    assert "cublaslt" not in names(other) and "peak" not in names(other), other
"#);
}

#[test]
fn hot_calls_stay_in_half_of_the_cache() {
    run(r"
from operands import hot_calls
def calls(inputs, outputs):
    return hot_calls(types.SimpleNamespace(input_bytes=inputs, output_bytes=outputs), 100, 20)
# Twenty; as many as fit beside the inputs; none where two do not.
assert [calls(*sizes) for sizes in ((10, 1), (10, 8), (10, 20), (10, 21), (60, 1))] == [20, 5, 2, 0, 0]
");
}

#[test]
fn a_processor_edits_every_set_before_it_comes_round() {
    run(r"
from host import rounds
assert rounds(3, 8, []) == ([0, 8], {})
bounds, edits = rounds(3, 8, [(at, 100 + at) for at in range(3, 8)])
assert bounds == [0, 3, 6, 8]
assert edits == {0: [], 1: [(3, 103), (4, 104), (5, 105)], 2: [(6, 106), (7, 107)]}
");
}
