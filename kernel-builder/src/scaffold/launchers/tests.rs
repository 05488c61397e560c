//! The Rust module of operations, held against the copy that the tests of the runtime compile.

use std::path::PathBuf;

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::host::rust::plan;
use kernel_plan::host::{DeviceSettings, RangeSettings};
use kernel_plan::spec::expr::Value;
use kernel_plan::spec::{OpSpec, parse_op};
use kernel_plan::units::Dtype;

use super::*;
use crate::base::files;

/// Where the runtime's tests include the modules, and the machine code that they embed in the place of a compiler's.
const KEPT: &str = "../kernel-rust/runtime/tests/it/generated";
const CODE: &str = "no_code.txt";

fn op(text: &str) -> OpSpec {
    let (op, problems) = parse_op(SourceFile::new("op.toml", text));
    op.unwrap_or_else(|| panic!("{problems:?}"))
}

/// Holds a module against the copy, or writes the copy anew: `KERNELWRIGHT_WRITE_LAUNCHERS=1 cargo test`.
#[track_caller]
fn check(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(KEPT).join(name);
    if crate::base::env::text("KERNELWRIGHT_WRITE_LAUNCHERS").is_some() {
        files::write(&path, text).unwrap();
    }
    let kept = files::read_text(&path).unwrap_or_default();
    assert!(
        kept == text,
        "{} is out of date: run the test with KERNELWRIGHT_WRITE_LAUNCHERS=1 and review it",
        path.display()
    );
}

fn images(op: &OpSpec, settings: &[DeviceSettings]) -> Vec<Image> {
    let plan = plan(op, settings).unwrap();
    let targets = [(9, 0, "Exact"), (12, 0, "Later")];
    let of_part = |(part, of): (usize, &kernel_plan::host::rust::PartPlan)| {
        targets.map(|(major, minor, reach)| Image {
            part,
            major,
            minor,
            reach,
            file: CODE.to_owned(),
            functions: of.expressions.clone(),
        })
    };
    plan.parts.iter().enumerate().flat_map(of_part).collect()
}

/// Settings that were measured on one GPU: for some lengths of one dtype, and for the rest of it.
fn measured() -> Vec<DeviceSettings> {
    let name = |text: &str| text.parse().unwrap();
    let range = |most: u64, block: i64, unroll: i64| RangeSettings {
        dtypes: [(name("T"), Dtype::Bf16)].into(),
        axes: [(name("hidden"), [1, most])].into(),
        multiples: [].into(),
        tuning: [
            (name("block"), Value::Integer(block)),
            (name("bytes"), Value::Integer(16)),
            (name("unroll"), Value::Integer(unroll)),
            (name("stream"), Value::Boolean(true)),
            (name("reread"), Value::Boolean(false)),
        ]
        .into(),
    };
    vec![DeviceSettings {
        device: "NVIDIA H200".to_owned(),
        capability: 90,
        multiprocessors: 132,
        ranges: vec![range(4096, 128, 4), range(8192, 256, 2)],
    }]
}

#[test]
fn the_module_of_a_tuned_operation_is_the_one_that_compiles() {
    let op = op(include_str!("../../../../examples/rms-norm-device/op.toml"));
    let settings = measured();
    let text = render(&plan(&op, &settings).unwrap(), "op.toml", &images(&op, &settings)).unwrap();
    check("rms_norm.txt", &text);
}

#[test]
fn the_module_of_every_form_is_the_one_that_compiles() {
    let op = op(include_str!("every_form.toml"));
    let text = render(&plan(&op, &[]).unwrap(), "op.toml", &images(&op, &[])).unwrap();
    check("every_form.txt", &text);
}

#[test]
fn a_module_without_code_has_the_same_functions() {
    let op = op(include_str!("../../../../examples/rms-norm-device/op.toml"));
    let text = render(&plan(&op, &[]).unwrap(), "op.toml", &[]).unwrap();
    check("stub.txt", &text);
    assert!(!text.contains("include_bytes"));
}

#[test]
fn what_no_module_does_is_told_by_its_key() {
    let text = include_str!("every_form.toml");
    let refusal = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        plan(&op(&text.replace(from, to)), &[]).unwrap_err().to_string()
    };
    let strided = refusal(
        "stream = { shape = [\"rows\", \"type\"], dtype = \"T\" }",
        "stream = { shape = [\"rows\", \"type\"], dtype = \"T\", strided = true }",
    );
    assert_eq!(
        strided,
        "`stream` of [inputs] has strided = true, and a generated host side does not do that"
    );
    let map = refusal(
        "[[launch.kernel]]\nentry = \"second\"",
        "[launch.tensor-map.tile]\ntensor = \"stream\"\nbox = [8, 8]\n\n[[launch.kernel]]\nentry = \"second\"",
    );
    assert_eq!(
        map,
        "[launch.tensor-map.tile] describes a tensor map, and a generated host side does not do that"
    );
    let launch = text.find("\n[launch]").unwrap() + 1;
    let workloads = text.find("[workload").unwrap();
    let without = format!("{}{}", &text[..launch], &text[workloads..]);
    let error = plan(&op(&without), &[]).unwrap_err().to_string();
    assert_eq!(error, "op.toml has no [launch], so there is no device code to start");
}
