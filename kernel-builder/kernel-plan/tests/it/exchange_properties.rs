//! What holds for every operation and every text: an export means the same, and nothing panics.

use std::collections::BTreeMap;

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::exchange::{Choice, Published, import};
use kernel_plan::spec::op::{AxisKind, Case, Device, OpSpec, Purpose};
use kernel_plan::units::{Dtype, PythonName};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

use crate::exchange::{exported, imported, op};

/// A variable axis: multiple, least, room above it.
type Bounds = (u64, Option<u64>, Option<u64>);

/// An operation, as the numbers that its text is made of.
#[derive(Debug, Clone)]
struct Drawn {
    axes: Vec<Result<u64, Bounds>>,
    variables: Vec<Vec<Dtype>>,
    inputs: Vec<(Vec<Index>, Index)>,
    outputs: Vec<(Vec<Index>, Index)>,
    scalars: Vec<(u8, i64)>,
    workloads: Vec<(Vec<u64>, Vec<Option<i64>>)>,
    section: (bool, bool, Vec<String>),
    python: bool,
}

const EXPORTED: &[Dtype] = &[
    Dtype::Bf16,
    Dtype::F16,
    Dtype::F32,
    Dtype::F8e4m3,
    Dtype::F8e5m2,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
    Dtype::Bool,
];

fn drawn() -> impl Strategy<Value = Drawn> {
    let bounds = (1..9u64, prop::option::of(0..40u64), prop::option::of(0..4000u64));
    let axis = prop_oneof![(0..70_000u64).prop_map(Ok), bounds.prop_map(Err)];
    let dtypes = prop::sample::subsequence(EXPORTED.to_vec(), 1..4);
    let tensor = || (prop::collection::vec(any::<Index>(), 0..4), any::<Index>());
    let workload =
        (prop::collection::vec(0..500u64, 5), prop::collection::vec(prop::option::of(any::<i64>()), 3));
    let texts = prop::collection::vec("[ -~\u{7f}\u{e9}\n]{1,12}", 0..3);
    (
        prop::collection::vec(axis, 1..5),
        prop::collection::vec(dtypes, 0..3),
        prop::collection::vec(tensor(), 1..4),
        prop::collection::vec(tensor(), 1..3),
        prop::collection::vec((0..3u8, any::<i64>()), 0..3),
        prop::collection::vec(workload, 1..4),
        (any::<bool>(), any::<bool>(), texts),
        any::<bool>(),
    )
        .prop_map(|(axes, variables, inputs, outputs, scalars, workloads, section, python)| Drawn {
            axes,
            variables,
            inputs,
            outputs,
            scalars,
            workloads,
            section,
            python,
        })
}

/// A value of one of the three kinds of scalar.
fn scalar(kind: u8, number: i64) -> String {
    match kind {
        0 => format!("{:?}", number as f64 / 1024.0),
        1 => number.to_string(),
        _ => (number % 2 == 0).to_string(),
    }
}

impl Drawn {
    /// op.toml, and the function that `[reference]` names.
    fn text(&self) -> String {
        let mut text = "format = 1\nname = \"drawn\"\n[axes]\n".to_owned();
        let mut variable = Vec::new();
        for (place, axis) in self.axes.iter().enumerate() {
            match axis {
                Ok(length) => text += &format!("a{place} = {{ type = \"const\", value = {length} }}\n"),
                Err((multiple, min, room)) => {
                    text += &format!("a{place} = {{ type = \"var\", multiple-of = {multiple}");
                    text += &min.map_or(String::new(), |min| format!(", min = {min}"));
                    // Above every length that a workload has.
                    text += &room.map_or(String::new(), |room| format!(", max = {}", 5000 + room));
                    text += " }\n";
                    variable.push((place, *multiple, min.unwrap_or(0)));
                }
            }
        }
        text += "[dtypes]\n";
        for (place, dtypes) in self.variables.iter().enumerate() {
            let dtypes: Vec<_> = dtypes.iter().map(|dtype| format!("\"{dtype}\"")).collect();
            text += &format!("T{place} = [{}]\n", dtypes.join(", "));
        }
        let tensors = |name: &str, drawn: &[(Vec<Index>, Index)]| {
            let mut text = String::new();
            for (place, (shape, dtype)) in drawn.iter().enumerate() {
                let shape: Vec<_> =
                    shape.iter().map(|index| format!("\"a{}\"", index.index(self.axes.len()))).collect();
                let choice = dtype.index(self.variables.len() + EXPORTED.len());
                let dtype = match choice.checked_sub(self.variables.len()) {
                    None => format!("T{choice}"),
                    Some(fixed) => EXPORTED[fixed].to_string(),
                };
                text +=
                    &format!("{name}{place} = {{ shape = [{}], dtype = \"{dtype}\" }}\n", shape.join(", "));
            }
            text
        };
        text +=
            &format!("[inputs]\n{}[outputs]\n{}", tensors("x", &self.inputs), tensors("y", &self.outputs));
        // Everything is used, so that the file has no warning.
        let axes: Vec<_> = (0..self.axes.len()).map(|place| format!("\"a{place}\"")).collect();
        text += &format!("all = {{ shape = [{}], dtype = \"f32\" }}\n", axes.join(", "));
        for place in 0..self.variables.len() {
            text += &format!("v{place} = {{ shape = [], dtype = \"T{place}\" }}\n");
        }
        text += "[scalars]\n";
        for (place, (kind, number)) in self.scalars.iter().enumerate() {
            let name = ["float", "int", "bool"][usize::from(*kind)];
            text += &format!("s{place} = {{ type = \"{name}\", default = {} }}\n", scalar(*kind, *number));
        }
        let function = if self.python { "run" } else { "drawn" };
        text += &format!(
            "[reference]\nfile = \"reference.py\"\nfunction = \"{function}\"\n[call]\nfunction = \"drawn\"\n"
        );
        text += "[tolerance]\naccumulate = \"f32\"\nlength = 1\nroundings = 1\n";
        for (place, (lengths, values)) in self.workloads.iter().enumerate() {
            let axes = variable.iter().zip(lengths).map(|((axis, multiple, min), length)| {
                format!("a{axis} = {}", (min + length).div_ceil(*multiple) * multiple)
            });
            let axes: Vec<_> = axes.collect();
            text += &format!(
                "[workload.w{place}]\naxes = {{ {} }}\n[workload.w{place}.scalars]\n",
                axes.join(", ")
            );
            for (place, ((kind, _), value)) in self.scalars.iter().zip(values).enumerate() {
                text +=
                    &value.map_or(String::new(), |value| format!("s{place} = {}\n", scalar(*kind, value)));
            }
        }
        let (renamed, described, texts) = &self.section;
        text += "[flashinfer]\n";
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
        text += &format!("tags = [{0}]\nconstraints = [{0}]\n", texts.join(", "));
        if *renamed {
            text += "name = \"drawn-v1.0\"\nop-type = \"drawn_things\"\nuuids = { w0 = \"W/0\" }\n";
        }
        if let (true, Some(first)) = (described, texts.first()) {
            text += &format!("axes = {{ a0 = {first} }}\ntensors = {{ x0 = {first}, all = {first} }}\n");
        }
        text
    }

    fn reference(&self) -> String {
        let tensors = (0..self.inputs.len()).map(|place| format!("x{place}"));
        let scalars = (0..self.scalars.len()).map(|place| format!("s{place}"));
        let parameters: Vec<_> = tensors.chain(scalars).collect();
        let function = if self.python { "run" } else { "drawn" };
        format!("def {function}({}):\n    return None\n", parameters.join(", "))
    }
}

/// The calls of an operation under one choice of dtypes, without what a definition does not say.
fn calls(op: &OpSpec, dtypes: &BTreeMap<PythonName, Dtype>) -> Vec<String> {
    let cases = op.cases(Purpose::Verify, Device::Cuda);
    let chosen = cases.iter().filter(|case| case.dtypes.is_empty() || case.dtypes == *dtypes);
    let told = chosen.map(|case: &Case| {
        let Case { axes, inputs, scalars, outputs, .. } = case;
        format!("{axes:?} {inputs:?} {scalars:?} {outputs:?}")
    });
    told.collect()
}

fn bounds(op: &OpSpec) -> Vec<(&str, AxisKind)> {
    op.axes.iter().map(|axis| (axis.name.as_str(), axis.kind.clone())).collect()
}

/// Puts `with` at the place of the `at`-th value inside of `value`, counted in order.
fn replace(value: &mut Value, at: &mut usize, with: &Value) {
    if *at == 0 {
        *value = with.clone();
    }
    let next = at.checked_sub(1);
    let Some(next) = next else {
        *at = usize::MAX;
        return;
    };
    *at = next;
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, at, with)),
        Value::Object(entries) => entries.values_mut().for_each(|item| replace(item, at, with)),
        _ => {}
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        select(vec!["run", "var", "const", "expr", "bool", "float32", "scalar", "safetensors", "M", ""])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let key = prop_oneof![
            "[a-zM]{0,3}",
            select(vec!["type", "value", "shape", "dtype", "path", "description"]).prop_map(str::to_owned)
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

const DEFINITION: &str = include_str!("../exchange/cross_entropy_v32000.json");
const WORKLOADS: &str = include_str!("../exchange/cross_entropy_v32000.jsonl");

/// Imports; what comes out is sound.
fn survive(definition: &str, workloads: &str) {
    let file = |text: &str| SourceFile::new("x.json", text);
    let (made, problems) = import(&file(definition), Some(&file(workloads)));
    let _rendered = crate::project::render(&problems);
    if let Some(made) = made {
        let (read, problems) = kernel_plan::spec::parse_op(file(&made.op_toml));
        assert!(!kernel_plan::diagnostic::has_errors(&problems), "{}", crate::project::render(&problems));
        assert!(read.is_some());
    }
    assert!(problems.iter().all(|problem| !problem.code.starts_with("spec::")), "{definition}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_exported_operation_means_the_same(drawn in drawn()) {
        let ours = op(&drawn.text());
        let choice = Choice { workloads: Published::All, ..Choice::default() };
        let (all, _) = exported(&ours, &drawn.reference(), &choice);
        let combinations: usize = drawn.variables.iter().map(Vec::len).product();
        prop_assert_eq!(all.len(), combinations);
        let assignments: Vec<_> = {
            let mut seen: Vec<BTreeMap<PythonName, Dtype>> = Vec::new();
            for case in ours.cases(Purpose::Verify, Device::Cuda) {
                if !seen.contains(&case.dtypes) {
                    seen.push(case.dtypes);
                }
            }
            seen
        };
        for (one, dtypes) in all.iter().zip(&assignments) {
            let (made, _) = imported(&one.definition, &one.workloads);
            let back = op(&made.op_toml);
            prop_assert_eq!(calls(&back, &BTreeMap::new()), calls(&ours, dtypes));
            prop_assert_eq!(bounds(&back), bounds(&ours));
            prop_assert_eq!(back.reference.function.as_str(), "run");
            // And once more, without a difference.
            let (again, _) = exported(&back, &made.reference, &choice);
            prop_assert_eq!(&again[0], one);
        }
    }

    #[test]
    fn no_value_in_a_definition_is_too_strange(at in 0..80usize, with in json()) {
        let mut value: Value = serde_json::from_str(DEFINITION).unwrap();
        replace(&mut value, &mut at.clone(), &with);
        survive(&value.to_string(), WORKLOADS);
    }

    #[test]
    fn no_value_in_a_workload_is_too_strange(at in 0..40usize, with in json()) {
        let mut lines = WORKLOADS.lines();
        let mut value: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        replace(&mut value, &mut at.clone(), &with);
        survive(DEFINITION, &format!("{value}\n{}", lines.next().unwrap()));
    }

    #[test]
    fn no_text_is_too_strange(at in any::<Index>(), length in 0..20usize, with in "\\PC{0,6}") {
        for (definition, workloads) in [(true, false), (false, true)] {
            let cut = |text: &str, cut: bool| {
                if !cut {
                    return text.to_owned();
                }
                let letters: Vec<char> = text.chars().collect();
                let start = at.index(letters.len());
                let end = (start + length).min(letters.len());
                letters[..start].iter().collect::<String>() + &with + &letters[end..].iter().collect::<String>()
            };
            survive(&cut(DEFINITION, definition), &cut(WORKLOADS, workloads));
        }
        survive(&with, &with);
    }
}

#[test]
fn deep_nesting_is_no_danger() {
    let deep = "[".repeat(200_000);
    survive(&deep, &deep);
    let closed = format!("{{\"name\": {deep}{}}}", "]".repeat(200_000));
    survive(&closed, &closed);
}
