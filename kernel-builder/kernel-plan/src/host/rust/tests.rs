//! The spelling of expressions, and instances against what calls ask for.

use super::*;
use crate::diagnostic::SourceFile;
use crate::spec::expr::parse_expression;
use crate::spec::parse_op;

fn rms_norm() -> OpSpec {
    let text = include_str!("../../../../../examples/rms-norm-device/op.toml");
    parse_op(SourceFile::new("op.toml", text)).0.unwrap()
}

#[track_caller]
fn spelled(text: &str, expected: &str) {
    let op = rms_norm();
    assert_eq!(Names { op: &op }.spell(&parse_expression(text).unwrap()), expected, "{text}");
}

#[test]
fn arithmetic_is_checked_and_keeps_its_order() {
    spelled("rows * hidden + 1", "add(mul(call.rows, call.hidden)?, 1)?");
    spelled("rows * (hidden + 1)", "mul(call.rows, add(call.hidden, 1)?)?");
    spelled("rows - hidden - 2", "sub(sub(call.rows, call.hidden)?, 2)?");
    spelled("-rows / 3 % -2", "rem(div(neg(call.rows)?, 3)?, -2)?");
    spelled("ceil_div(rows, block)", "ceil_div(call.rows, s.block)?");
    spelled("min(rows, max(1, block))", "min(&[call.rows, max(&[1, s.block])])");
    spelled("sizeof(T) + sizeof(f64)", "add(call.T.size(), 8)?");
    spelled("stride(input, 0) * stride(input, 1)", "mul(call.hidden, 1)?");
    spelled("3000000000 < 2", "3000000000_i64 < 2");
}

#[test]
fn conditions_bind_as_in_op_toml() {
    spelled("not reread and rows > 1", "!(s.reread) && call.rows > 1");
    spelled("(reread or stream) and rows == 1", "(s.reread || s.stream) && call.rows == 1");
    spelled("reread or stream and rows != 1", "s.reread || (s.stream && call.rows != 1)");
    spelled("not (reread and stream)", "!(s.reread && s.stream)");
}

#[test]
fn names_are_identifiers() {
    let names = ["type", "self", "rows", "_", "crate"].map(identifier);
    assert_eq!(names, ["r#type", "self_", "rows", "__", "crate_"]);
    let arguments = ["stream", "a1", "w0", "alpha", "call", "fn"];
    let arguments = arguments.map(|text| argument_name(&text.parse().unwrap()));
    assert_eq!(arguments, ["stream_", "a1_", "w0_", "alpha", "call_", "r#fn"]);
}

#[test]
fn every_dtype_has_a_variant_of_the_runtime() {
    let paths: Vec<String> = Dtype::ALL.iter().map(|dtype| dtype_path(*dtype)).collect();
    let expected = "Bf16 F16 F32 F64 F8e4m3 F8e5m2 I8 I16 I32 I64 Bool";
    // The runtime numbers them in this order, which the search for an instance relies on.
    assert_eq!(paths.join(" ").replace("Dtype::", ""), expected);
}

#[test]
fn instances_are_those_of_the_host_side_in_parts_of_a_limited_size() {
    let op = rms_norm();
    let plan = plan(&op, &[]).unwrap();
    let host = super::super::plan(&op, &[]).unwrap();
    let [space] = plan.spaces.as_slice() else { panic!("one set of macros") };
    let of_host = &host.launch.as_ref().unwrap().spaces[0];
    for (ours, theirs) in space.kernels.iter().zip(&of_host.instances) {
        assert_eq!(ours.len(), theirs.len());
        for (one, other) in ours.iter().zip(theirs) {
            assert_eq!(format!("rms_norm_macros_0::{}", one.expression), other.function);
            assert_eq!(one.expression, plan.parts[one.part].expressions[one.function]);
        }
    }
    let sizes: Vec<usize> = plan.parts.iter().map(|part| part.expressions.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), space.kernels.iter().map(Vec::len).sum::<usize>());
    let (last, whole) = sizes.split_last().unwrap();
    assert!(whole.iter().all(|size| *size == TOGETHER) && (1..=TOGETHER).contains(last), "{sizes:?}");
    assert!(plan.parts.iter().all(|part| part.defines == space.defines));
}

#[test]
fn the_functions_of_a_library_are_those_of_the_host_side_a_part_for_each_set_of_macros() {
    let op = rms_norm();
    let plan = of_library(&op, &[]).unwrap();
    let host = super::super::plan(&op, &[]).unwrap();
    let [part] = plan.parts.as_slice() else { panic!("one set of macros") };
    let of_host = host.launch.as_ref().unwrap().spaces[0].instances.iter().flatten();
    let mut of_host: Vec<&str> = of_host.map(|one| one.function.as_str()).collect();
    let mut names = part.names();
    names.sort();
    of_host.sort_unstable();
    of_host.dedup();
    assert_eq!(names, of_host);
    assert_eq!(
        plan.signature(),
        "rms_norm<T: bf16 | f16 | f32>(out: &mut TensorMut<T>, input: &Tensor<T>, weight: &Tensor<T>, eps: f64)"
    );
}
