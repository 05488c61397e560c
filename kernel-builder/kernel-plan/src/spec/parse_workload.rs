//! Reads the `[workload.NAME]` sections of op.toml.
//!
//! Owns: that a workload gives every variable axis a length that the axis allows, every dtype from its range, and every
//! scalar a value from its own.
//! Never: makes cases of them; `cases` does.

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::diagnostic::{Problem, did_you_mean};
use crate::units::{Dtype, PythonName, WorkloadName};

use super::defined::Defined;
use super::op::{Axis, AxisKind, Device, Purpose, ScalarValue, TypeVariable, Workload};
use super::parse_signature::{known_input, refuse_scalar, scalar_value, unknown_axis};
use super::read::{Node, Read, Table};
use super::{Spanned, codes, values};

/// Every section, in file order; those with a problem are reported and left out.
pub(crate) fn workloads(table: &Table<'_>, defined: &Defined<'_>) -> Vec<Workload> {
    table
        .entries()
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name(&key, &node, codes::BAD_VALUE);
            workload(name, node.table()?, defined)
        })
        .collect()
}

fn workload(
    name: Option<Spanned<WorkloadName>>,
    mut table: Table<'_>,
    defined: &Defined<'_>,
) -> Option<Workload> {
    let axes = table
        .require_table("axes", "axes = { rows = 2048, hidden = 4096 }")
        .and_then(|lengths| axes(&lengths, defined));
    let dtypes = match table.node("dtypes") {
        Some(node) => dtypes(&node, defined),
        None => Some(
            defined.dtypes.iter().map(|range| (range.name.value.clone(), range.dtypes.clone())).collect(),
        ),
    };
    let purposes = choices::<Purpose>(&mut table, "for", "for = [\"verify\", \"bench\"]", Purpose::ALL);
    let devices = choices::<Device>(&mut table, "devices", "devices = [\"cpu\", \"cuda\"]", Device::ALL);
    let weight = weight(&mut table);
    let held_out = table.get("held-out").is_some_and(|held_out| held_out.value);
    let without = without(&mut table, defined);
    let scalars = table.table("scalars").map(|values| scalars(&values, defined)).unwrap_or_default();
    table.finish();
    Some(Workload {
        name: name?,
        axes: axes?,
        dtypes: dtypes?,
        purposes,
        devices,
        weight: weight?,
        held_out,
        without,
        scalars,
    })
}

/// A share of the score; 1 where none is written.
fn weight(table: &mut Table<'_>) -> Option<f64> {
    let Some(node) = table.node("weight") else { return Some(1.0) };
    let weight = node.read::<f64>()?;
    if weight.value <= 0.0 {
        let problem =
            Problem::error(codes::BAD_VALUE, format!("`weight` of a workload cannot be {}", weight.value))
                .help("write a number above zero, or remove the purpose \"bench\" to exclude the workload");
        node.report(problem, &weight.span, "must be above zero");
    }
    Some(weight.value)
}

/// The optional inputs that are left out.
fn without(table: &mut Table<'_>, defined: &Defined<'_>) -> Vec<Spanned<PythonName>> {
    let mut names: Vec<Spanned<PythonName>> = Vec::new();
    for text in table.list::<String>("without") {
        if known_input(table, &text, defined).is_none() {
            continue;
        }
        let Some(input) = defined.inputs.iter().find(|input| input.tensor.name.as_str() == text.value) else {
            continue;
        };
        let name = &input.tensor.name;
        if !input.optional {
            let problem = Problem::error(
                codes::NOT_OPTIONAL,
                format!("`{}` is not optional, so it must be passed", name.value),
            )
            .help(format!("add optional = true to `{}` in [inputs], if it may be None", name.value))
            .at(table.file(), &text.span, "left out here")
            .at(table.file(), &name.span, "not optional");
            table.push(problem);
        } else if names.iter().any(|earlier| earlier.value == name.value) {
            let problem = Problem::error(codes::DUPLICATE_NAME, format!("`{}` is listed twice", name.value))
                .help("remove one of them");
            table.report(problem, &text.span, "again");
        } else {
            names.push(Spanned::new(name.value.clone(), text.span));
        }
    }
    names
}

/// Values other than the defaults.
fn scalars(table: &Table<'_>, defined: &Defined<'_>) -> BTreeMap<PythonName, ScalarValue> {
    let mut values = BTreeMap::new();
    for (key, node) in table.entries() {
        let Some(scalar) = defined.scalars.iter().find(|scalar| scalar.name.as_str() == key.value) else {
            if !defined.scalar_names.contains(&key.value) {
                let known = defined.scalar_names.iter().map(String::as_str);
                let label = did_you_mean(&key.value, known, "not a scalar");
                let help = match defined.scalar_names.as_slice() {
                    [] => "define it first: [scalars] with eps = { type = \"float\", default = 1e-6 }"
                        .to_owned(),
                    known => format!("the scalars are {}", known.join(", ")),
                };
                let message = format!("`[scalars]` does not define `{}`", key.value);
                table.report(Problem::error(codes::UNKNOWN_SCALAR, message).help(help), &key.span, label);
            }
            continue;
        };
        let Some(value) = scalar_value(scalar.default.value, &node) else { continue };
        if let Some(problem) = refuse_scalar(scalar, value.value) {
            table.push(problem.at(table.file(), &value.span, "this value").at(
                table.file(),
                &scalar.name.span,
                "the scalar",
            ));
        }
        values.insert(scalar.name.value.clone(), value.value);
    }
    values
}

/// An optional list of fixed names; absent is all of them.
fn choices<T: Read + Copy>(table: &mut Table<'_>, key: &'static str, example: &str, all: &[T]) -> Vec<T> {
    let Some(node) = table.node(key) else { return all.to_vec() };
    let Some(items) = node.items() else { return Vec::new() };
    if items.is_empty() {
        empty(&node, example);
    }
    items.iter().filter_map(|item| item.read()).map(|choice| choice.value).collect()
}

fn empty(node: &Node<'_>, example: &str) {
    let problem = Problem::error(codes::EMPTY_LIST, format!("`{}` is empty", node.path()))
        .help(format!("for example: {example}; remove the key to use all"));
    node.report(problem, &node.span(), "at least one entry is needed");
}

fn axes(table: &Table<'_>, defined: &Defined<'_>) -> Option<BTreeMap<PythonName, u64>> {
    let mut lengths = BTreeMap::new();
    let mut complete = true;
    let entries = table.entries();
    for (key, node) in &entries {
        let Some(axis) = defined.axes.iter().find(|axis| axis.name.as_str() == key.value) else {
            if !defined.axis_names.contains(&key.value) {
                unknown_axis(table, key, defined);
            }
            continue;
        };
        match node.read::<u64>() {
            Some(length) => {
                if let Some(problem) = refuse(axis, length.value) {
                    table.push(problem.at(table.file(), &length.span, "this length").at(
                        table.file(),
                        &axis.name.span,
                        "the axis",
                    ));
                }
                lengths.insert(axis.name.value.clone(), length.value);
            }
            None => complete = false,
        }
    }
    for axis in defined.axes.iter().filter(|axis| matches!(axis.kind, AxisKind::Var { .. })) {
        if !entries.iter().any(|(key, _)| key.value == axis.name.as_str()) {
            let message = format!("the workload has no length for `{}`", axis.name.value);
            let problem = Problem::error(codes::WORKLOAD_AXIS, message)
                .help(format!("add {} = ... to `axes`", axis.name.value))
                .at(table.file(), &table.place(), "incomplete")
                .at(table.file(), &axis.name.span, "a variable axis");
            table.push(problem);
            complete = false;
        }
    }
    complete.then_some(lengths)
}

/// Why the axis does not allow `length`, if so.
fn refuse(axis: &Axis, length: u64) -> Option<Problem> {
    let name = &axis.name.value;
    let (message, help) = match axis.kind {
        AxisKind::Const(value) => (
            format!("`{name}` is always {value}, so a workload cannot set it"),
            format!("remove `{name}` here, or make the axis variable"),
        ),
        AxisKind::Var { multiple_of, .. } if !length.is_multiple_of(multiple_of) => (
            format!("`{name}` must be a multiple of {multiple_of}, but is {length}"),
            format!(
                "the nearest multiples are {} and {}",
                length - length % multiple_of,
                length - length % multiple_of + multiple_of
            ),
        ),
        AxisKind::Var { min: Some(min), .. } if length < min => {
            (format!("{length} is below {min}, the minimum of `{name}`"), "choose a larger length".to_owned())
        }
        AxisKind::Var { max: Some(max), .. } if length > max => (
            format!("{length} is above {max}, the maximum of `{name}`"),
            "choose a smaller length".to_owned(),
        ),
        AxisKind::Var { .. } => return None,
    };
    Some(Problem::error(codes::AXIS_VALUE, message).help(help))
}

/// A list for the only type variable, or a table with a list for some of several; the others keep their range.
fn dtypes(node: &Node<'_>, defined: &Defined<'_>) -> Option<Vec<(PythonName, Vec<Dtype>)>> {
    match (node.value(), defined.dtypes) {
        (DeValue::Array(_), [range]) => Some(vec![(range.name.value.clone(), narrowed(node, range)?)]),
        (DeValue::Table(_), ranges) => {
            let table = node.table()?;
            let entries = table.entries();
            for (key, _) in entries.iter().filter(|(key, _)| !defined.dtype_names.contains(&key.value)) {
                let message = format!("`[dtypes]` does not define `{}`", key.value);
                let problem = Problem::error(codes::UNKNOWN_DTYPE, message)
                    .help(format!("the type variables are {}", defined.dtype_names.join(", ")));
                table.report(problem, &key.span, "not a type variable");
            }
            let chosen =
                |range: &TypeVariable| match entries.iter().find(|(key, _)| key.value == range.name.as_str())
                {
                    Some((_, node)) => narrowed(node, range),
                    None => Some(range.dtypes.clone()),
                };
            ranges.iter().map(|range| Some((range.name.value.clone(), chosen(range)?))).collect()
        }
        (_, [_]) => node.wrong_type("a list of dtypes", "[\"bf16\"]"),
        (_, []) => {
            let problem = Problem::error(
                codes::UNKNOWN_DTYPE,
                "the workload sets `dtypes`, but there is no type variable",
            )
            .help("define one, [dtypes] T = [\"bf16\", \"f32\"], and use it in inputs and outputs");
            node.report(problem, &node.span(), "nothing to choose");
            None
        }
        _ => node.wrong_type("a table with a list per type variable", "{ T = [\"bf16\"] }"),
    }
}

/// Some of a variable's dtypes.
fn narrowed(node: &Node<'_>, range: &TypeVariable) -> Option<Vec<Dtype>> {
    let chosen = node.read::<Vec<Spanned<Dtype>>>()?;
    if node.items()?.is_empty() {
        empty(node, "dtypes = [\"bf16\"]");
    }
    for dtype in chosen.value.iter().filter(|dtype| !range.dtypes.contains(&dtype.value)) {
        let known: Vec<_> = range.dtypes.iter().map(|dtype| dtype.as_str()).collect();
        let message = format!("the type variable `{}` does not include `{}`", range.name.value, dtype.value);
        let problem = Problem::error(codes::UNKNOWN_DTYPE, message).help(format!(
            "`{}` is one of {}; to allow another dtype, add it under [dtypes]",
            range.name.value,
            known.join(", ")
        ));
        node.report(problem, &dtype.span, "outside the range");
    }
    Some(chosen.value.into_iter().map(|dtype| dtype.value).collect())
}
