//! Reads op.toml, format 1.
//!
//! Owns: its keys, and what is wrong with one file by itself; workloads are in `parse_workload`.
//! Never: looks at other files; those rules are in `rules`.

use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, closest};
use crate::units::{Dtype, PythonName};

use super::op::{
    Axis, AxisKind, Call, OpSpec, Purpose, Reference, Scalar, ScalarValue, Tensor, TensorDtype, Tolerance,
    TypeVariable,
};
use super::parse_workload;
use super::read::{self, Node, Table};
use super::{Spanned, codes, values};

/// The format that this version reads.
const FORMAT: u64 = 1;

/// What later sections may refer to. Names count as defined even where their definition has a problem, so that
/// one mistake is reported once.
pub(crate) struct Defined<'a> {
    pub(crate) axes: &'a [Axis],
    pub(crate) axis_names: Vec<String>,
    pub(crate) dtypes: &'a [TypeVariable],
    pub(crate) dtype_names: Vec<String>,
}

/// Reads op.toml and reports everything that is wrong with it, in file order.
///
/// The spec is there as soon as every value that it needs could be read; it is fit for use only when
/// `diagnostic::has_errors` says no.
pub fn parse_op(file: Arc<SourceFile>) -> (Option<OpSpec>, Vec<Problem>) {
    read::document(&file, |root| op(root, &file))
}

fn op(mut root: Table<'_>, file: &Arc<SourceFile>) -> Option<OpSpec> {
    format(&mut root)?;
    let name = root.require("name", "name = \"rms_norm\"");
    let description = root.get("description");
    let axes_table = root.require_table("axes", "[axes] with rows = { type = \"var\" }");
    let axis_names = names(axes_table.as_ref());
    let axes = axes_table.map(axes).unwrap_or_default();
    let dtypes_table = root.table("dtypes");
    let dtype_names = names(dtypes_table.as_ref());
    let dtypes = dtypes_table.map(dtypes).unwrap_or_default();
    let defined = Defined { axes: &axes, axis_names, dtypes: &dtypes, dtype_names };
    let inputs =
        root.require_table("inputs", "[inputs] with input = { shape = [\"rows\"], dtype = \"f32\" }");
    let inputs = inputs.map(|table| tensors(table, &defined));
    let scalars = root.table("scalars").map(scalars).unwrap_or_default();
    let outputs =
        root.require_table("outputs", "[outputs] with out = { shape = [\"rows\"], dtype = \"f32\" }");
    let outputs = outputs.map(|table| tensors(table, &defined));
    let reference = root.require_table("reference", "[reference] with file and function").and_then(reference);
    let call = root.require_table("call", "[call] with function").and_then(call);
    let tolerance = root
        .require_table("tolerance", "[tolerance] with accumulate, length and roundings")
        .and_then(|table| tolerance(table, &defined));
    let workload_table = root.table("workload");
    let written = names(workload_table.as_ref()).len();
    let workloads =
        workload_table.map(|table| parse_workload::workloads(&table, &defined)).unwrap_or_default();
    // A workload that could not be read has been reported, and might have been the one.
    if workloads.len() == written
        && !workloads.iter().any(|workload| workload.purposes.contains(&Purpose::Verify))
    {
        let problem =
            Problem::warning(codes::NO_WORKLOAD, "no workload is for verifying, so nothing can be verified")
                .help("add [workload.small] with axes = { ... }, and give it odd lengths too");
        let label = if written == 0 { "no [workload.NAME] at all" } else { "none of the workloads verifies" };
        root.report(problem, &root.place(), label);
    }
    let (inputs, outputs, call) = (inputs?, outputs?, call?);
    distinct_arguments(&root, &inputs, &scalars, &outputs, &call);
    root.finish();
    Some(OpSpec {
        file: Arc::clone(file),
        name: name?,
        description,
        axes,
        dtypes,
        inputs,
        scalars,
        outputs,
        reference: reference?,
        call,
        tolerance: tolerance?,
        workloads,
    })
}

/// `None` where the file cannot be read as this format.
fn format(root: &mut Table<'_>) -> Option<()> {
    let found = root.require::<u64>("format", "format = 1")?;
    if found.value == FORMAT {
        return Some(());
    }
    let message = format!("op.toml is of format {}, and this version reads format {FORMAT}", found.value);
    let problem =
        Problem::error(codes::OP_FORMAT, message).help("write `format = 1`, or use a newer kernelwright");
    root.report(problem, &found.span, "another format");
    None
}

fn names(table: Option<&Table<'_>>) -> Vec<String> {
    table.map(|table| table.entries().into_iter().map(|(name, _)| name.value).collect()).unwrap_or_default()
}

fn axes(table: Table<'_>) -> Vec<Axis> {
    let entries = table.entries();
    entries
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name(&key, &node, codes::NOT_AN_IDENTIFIER);
            let kind = axis_kind(node.table()?);
            Some(Axis { name: name?, kind: kind? })
        })
        .collect()
}

fn axis_kind(mut table: Table<'_>) -> Option<AxisKind> {
    let kind = table.require::<String>("type", "{ type = \"var\" }")?;
    let axis = match kind.value.as_str() {
        "const" => table
            .require("value", "{ type = \"const\", value = 128 }")
            .map(|value| AxisKind::Const(value.value)),
        "var" => {
            let multiple_of = table.get::<u64>("multiple-of");
            let min = table.get::<u64>("min");
            let max = table.get::<u64>("max");
            if let Some(zero) = multiple_of.as_ref().filter(|multiple| multiple.value == 0) {
                let problem = Problem::error(codes::BAD_VALUE, "nothing but zero is a multiple of zero")
                    .help("leave `multiple-of` out, or write 1 or more");
                table.report(problem, &zero.span, "must be 1 or more");
            }
            if let (Some(min), Some(max)) = (&min, &max)
                && min.value > max.value
            {
                let message = format!("no length is at least {} and at most {}", min.value, max.value);
                let problem = Problem::error(codes::EMPTY_RANGE, message)
                    .at(table.file(), &min.span, "the lower bound")
                    .at(table.file(), &max.span, "the upper bound")
                    .help("`max` is inclusive and must not be below `min`");
                table.push(problem);
            }
            Some(AxisKind::Var {
                multiple_of: multiple_of.map_or(1, |multiple| multiple.value.max(1)),
                min: min.map(|min| min.value),
                max: max.map(|max| max.value),
            })
        }
        other => {
            let problem = Problem::error(codes::BAD_VALUE, format!("`{other}` is not a kind of axis"))
                .help("the choice is \"var\" (each workload says) and \"const\" (with value = 128)");
            table.report(problem, &kind.span, "here");
            return None;
        }
    };
    table.finish();
    axis
}

fn dtypes(table: Table<'_>) -> Vec<TypeVariable> {
    let entries = table.entries();
    entries
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name::<PythonName>(&key, &node, codes::NOT_AN_IDENTIFIER);
            if key.value.parse::<Dtype>().is_ok() {
                let message = format!("the type variable `{}` has the name of a dtype", key.value);
                let problem = Problem::error(codes::DUPLICATE_NAME, message).help("call it T, for example");
                node.report(problem, &key.span, "a dtype already");
            }
            let mut dtypes: Vec<Dtype> = Vec::new();
            if node.items()?.is_empty() {
                let problem =
                    Problem::error(codes::EMPTY_LIST, format!("`{}` ranges over no dtype", node.path()))
                        .help("for example: T = [\"bf16\", \"f16\", \"f32\"]");
                node.report(problem, &node.span(), "at least one entry is needed");
            }
            for dtype in node.read::<Vec<Spanned<Dtype>>>()?.value {
                if dtypes.contains(&dtype.value) {
                    let message = format!("`{}` is listed twice", dtype.value);
                    let problem = Problem::error(codes::DUPLICATE_NAME, message).help("remove one of them");
                    node.report(problem, &dtype.span, "again");
                } else {
                    dtypes.push(dtype.value);
                }
            }
            Some(TypeVariable { name: name?, dtypes })
        })
        .collect()
}

fn tensors(table: Table<'_>, defined: &Defined<'_>) -> Vec<Tensor> {
    let entries = table.entries();
    if entries.is_empty() {
        let problem = Problem::error(codes::EMPTY_LIST, "an operation needs an input and an output")
            .help("for example: out = { shape = [\"rows\"], dtype = \"f32\" }");
        table.report(problem, &table.place(), "no tensor in this section");
    }
    entries
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name(&key, &node, codes::NOT_AN_IDENTIFIER);
            let mut table = node.table()?;
            let shape = table.require::<Vec<Spanned<String>>>("shape", "shape = [\"rows\", \"hidden\"]");
            let dtype = table
                .require::<String>("dtype", "dtype = \"T\"")
                .and_then(|text| dtype(&table, text, defined));
            let shape = shape.map(|list| {
                list.value.into_iter().filter_map(|text| axis_name(&table, text, defined)).collect::<Vec<_>>()
            });
            table.finish();
            Some(Tensor { name: name?, shape: shape?, dtype: dtype? })
        })
        .collect()
}

/// The name of a defined axis.
fn axis_name(table: &Table<'_>, text: Spanned<String>, defined: &Defined<'_>) -> Option<Spanned<PythonName>> {
    if !defined.axis_names.contains(&text.value) {
        unknown_axis(table, &text, defined);
    }
    text.value.parse().ok().map(|name| Spanned::new(name, text.span))
}

/// Reports an axis that `[axes]` does not define.
pub(crate) fn unknown_axis(table: &Table<'_>, text: &Spanned<String>, defined: &Defined<'_>) {
    let names = defined.axis_names.iter().map(String::as_str);
    let label = closest(&text.value, names)
        .map_or_else(|| "not defined".to_owned(), |axis| format!("did you mean `{axis}`?"));
    let known = defined.axis_names.join(", ");
    let problem = Problem::error(codes::UNKNOWN_AXIS, format!("`[axes]` does not define `{}`", text.value))
        .help(format!("the axes are {known}"));
    table.report(problem, &text.span, label);
}

/// A dtype, or a type variable that `[dtypes]` defines.
fn dtype(table: &Table<'_>, text: Spanned<String>, defined: &Defined<'_>) -> Option<Spanned<TensorDtype>> {
    if defined.dtype_names.contains(&text.value) {
        let name = text.value.parse().ok()?;
        return Some(Spanned::new(TensorDtype::Variable(name), text.span));
    }
    if let Ok(dtype) = text.value.parse() {
        return Some(Spanned::new(TensorDtype::Fixed(dtype), text.span));
    }
    let variables = defined.dtype_names.iter().map(String::as_str);
    let choices: Vec<_> = variables.chain(Dtype::ALL.iter().map(|dtype| dtype.as_str())).collect();
    let label = closest(&text.value, choices.iter().copied())
        .map_or_else(|| "not defined".to_owned(), |choice| format!("did you mean `{choice}`?"));
    let message = format!("`{}` is neither a type variable nor a dtype", text.value);
    let problem =
        Problem::error(codes::UNKNOWN_DTYPE, message).help(format!("the choice is {}", choices.join(", ")));
    table.report(problem, &text.span, label);
    None
}

fn scalars(table: Table<'_>) -> Vec<Scalar> {
    let entries = table.entries();
    entries
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name(&key, &node, codes::NOT_AN_IDENTIFIER);
            let mut table = node.table()?;
            let kind = table.require::<String>("type", "{ type = \"float\", default = 1e-6 }");
            let default = table.require_node("default", "{ type = \"float\", default = 1e-6 }");
            table.finish();
            let default = scalar_value(&kind?, &default?);
            Some(Scalar { name: name?, default: default? })
        })
        .collect()
}

fn scalar_value(kind: &Spanned<String>, default: &Node<'_>) -> Option<Spanned<ScalarValue>> {
    let value = match kind.value.as_str() {
        "float" => ScalarValue::Float(default.read::<f64>()?.value),
        "int" => ScalarValue::Int(default.read::<i64>()?.value),
        "bool" => ScalarValue::Bool(default.read::<bool>()?.value),
        other => {
            let problem = Problem::error(codes::BAD_VALUE, format!("`{other}` is not a type of scalar"))
                .help("the choice is float, int, bool");
            default.report(problem, &kind.span, "here");
            return None;
        }
    };
    Some(Spanned::new(value, default.span()))
}

fn reference(mut table: Table<'_>) -> Option<Reference> {
    let file = table.require("file", "file = \"reference.py\"");
    let function = table.require("function", "function = \"rms_norm\"");
    let fused = table.get("fused");
    table.finish();
    Some(Reference { file: file?, function: function?, fused })
}

fn call(mut table: Table<'_>) -> Option<Call> {
    let function = table.require("function", "function = \"rms_norm\"");
    let out = table.list("out");
    table.finish();
    Some(Call { function: function?, out })
}

fn tolerance(mut table: Table<'_>, defined: &Defined<'_>) -> Option<Tolerance> {
    let accumulate = table.require::<Dtype>("accumulate", "accumulate = \"f32\"");
    if let Some(dtype) = accumulate.as_ref().filter(|dtype| !dtype.is_float()) {
        let problem = Problem::error(codes::BAD_VALUE, format!("sums are not rounded in `{}`", dtype.value))
            .help("`accumulate` is one of bf16, f16, f32, f64");
        table.report(problem, &dtype.span, "not a floating-point dtype");
    }
    let length = table
        .require::<String>("length", "length = \"hidden\"")
        .and_then(|text| axis_name(&table, text, defined));
    let roundings = table.require("roundings", "roundings = 1");
    table.finish();
    Some(Tolerance { accumulate: accumulate?, length: length?, roundings: roundings? })
}

/// Argument names are unique, output names are unique, and output keywords match the outputs in number.
fn distinct_arguments(
    root: &Table<'_>,
    inputs: &[Tensor],
    scalars: &[Scalar],
    outputs: &[Tensor],
    call: &Call,
) {
    let arguments = inputs.iter().map(|tensor| &tensor.name).chain(scalars.iter().map(|scalar| &scalar.name));
    distinct(root, arguments.chain(&call.out), "argument");
    distinct(root, outputs.iter().map(|tensor| &tensor.name), "output");
    if let (Some(first), Some(last)) = (call.out.first(), call.out.last())
        && call.out.len() != outputs.len()
    {
        let message = format!("`call.out` has {} keyword(s) for {} output(s)", call.out.len(), outputs.len());
        let problem = Problem::error(codes::OUT_COUNT, message)
            .help("name one keyword per output, in the order of [outputs], or leave `out` away");
        root.report(problem, &(first.span.start..last.span.end), "one per output");
    }
}

fn distinct<'s>(root: &Table<'_>, names: impl Iterator<Item = &'s Spanned<PythonName>>, what: &str) {
    let mut seen: Vec<&Spanned<PythonName>> = Vec::new();
    for name in names {
        match seen.iter().find(|earlier| earlier.value == name.value) {
            Some(earlier) => {
                let problem =
                    Problem::error(codes::DUPLICATE_NAME, format!("two {what}s are called `{}`", name.value))
                        .help("every argument has a name of its own, and so has every output")
                        .at(root.file(), &name.span, "the second")
                        .at(root.file(), &earlier.span, "the first");
                root.push(problem);
            }
            None => seen.push(name),
        }
    }
}
