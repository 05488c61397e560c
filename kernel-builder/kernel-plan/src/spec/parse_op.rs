//! Reads op.toml, format 1.
//!
//! Owns: the order of its sections, and the keys of the small ones; inputs, outputs and scalars are in
//! `parse_signature`, the large sections in `parse_workload`, `parse_tune` and `parse_launch`.
//! Never: looks at other files; those rules are in `rules`.

use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, has_errors};
use crate::units::{Dtype, PythonName, RelPath};

use super::defined::{Defined, names};
use super::expr::{self, BoolExpr};
use super::flashinfer;
use super::op::{Axis, AxisKind, Call, Cpu, Forward, OpSpec, Purpose, Reference, Tolerance, TypeVariable};
use super::read::{self, Table};
use super::tune::Tune;
use super::{
    Spanned, across_op, codes, parse_gradient, parse_launch, parse_let, parse_signature, parse_tune,
    parse_workload, values,
};

/// The format that this version reads.
const FORMAT: u64 = 1;

/// Reads op.toml and reports everything that is wrong with it, in file order.
///
/// The spec is there as soon as every value that it needs could be read; it is fit for use only when
/// `diagnostic::has_errors` says no.
pub fn parse_op(file: Arc<SourceFile>) -> (Option<OpSpec>, Vec<Problem>) {
    let mut has_axes = true;
    let (spec, mut problems) = read::document(&file, |root| op(root, &file, &mut has_axes));
    if !has_axes {
        // Every use of an axis would be reported, for one mistake.
        problems.retain(|problem| problem.code != codes::UNKNOWN_AXIS);
    }
    if let Some(spec) = &spec
        && !has_errors(&problems)
    {
        problems.extend(across_op::check(spec));
        problems.extend(across_op::flashinfer(spec));
        problems.sort_by_key(Problem::offset);
    }
    (spec, problems)
}

fn op(mut root: Table<'_>, file: &Arc<SourceFile>, has_axes: &mut bool) -> Option<OpSpec> {
    format(&mut root)?;
    let name = root.require("name", "name = \"rms_norm\"");
    let description = root.get("description");
    let axes_table = root.require_table("axes", "[axes] with rows = { type = \"var\" }");
    *has_axes = axes_table.is_some();
    let axis_names = names(axes_table.as_ref());
    let axes = axes_table.map(axes).unwrap_or_default();
    let dtypes_table = root.table("dtypes");
    let dtype_names = names(dtypes_table.as_ref());
    let dtypes = dtypes_table.map(dtypes).unwrap_or_default();
    let mut defined = Defined {
        axes: &axes,
        axis_names,
        dtypes: &dtypes,
        dtype_names,
        inputs: &[],
        input_names: Vec::new(),
        outputs: &[],
        output_names: Vec::new(),
        scalars: &[],
        scalar_names: Vec::new(),
        tunables: &[],
        tunable_names: Vec::new(),
        let_names: Vec::new(),
        definitions: None,
    };
    let let_table = root.table("let");
    defined.let_names = names(let_table.as_ref());
    let inputs_table =
        root.require_table("inputs", "[inputs] with input = { shape = [\"rows\"], dtype = \"f32\" }");
    defined.input_names = names(inputs_table.as_ref());
    let inputs = inputs_table.map(|table| parse_signature::inputs(table, &defined));
    let scalars_table = root.table("scalars");
    defined.scalar_names = names(scalars_table.as_ref());
    let scalars = scalars_table.map(parse_signature::scalars).unwrap_or_default();
    let outputs_table =
        root.require_table("outputs", "[outputs] with out = { shape = [\"rows\"], dtype = \"f32\" }");
    defined.output_names = names(outputs_table.as_ref());
    let outputs = outputs_table.map(|table| parse_signature::outputs(table, &defined));
    defined.inputs = inputs.as_deref().unwrap_or_default();
    defined.scalars = &scalars;
    defined.outputs = outputs.as_deref().unwrap_or_default();
    parse_signature::in_place(&root, &defined);
    // Before [tune]: a tunable is no property of a call.
    let constraints = constraints(&mut root, &defined);
    let reference = root.require_table("reference", "[reference] with file and function").and_then(reference);
    let gradient = root.table("gradient").and_then(|table| parse_gradient::gradient(table, &defined));
    let call = root.require_table("call", "[call] with function").and_then(call);
    let tolerance = root
        .require_table("tolerance", "[tolerance] with accumulate, length and roundings")
        .and_then(|table| tolerance(table, &defined));
    let tune_table = root.table("tune");
    defined.tunable_names = parse_tune::names(tune_table.as_ref());
    let (tunables, conditions) =
        tune_table.as_ref().map(|table| parse_tune::tunables(table, &defined)).unwrap_or_default();
    defined.tunables = &tunables;
    defined.definitions = Some(&[]);
    let definitions = let_table.map(|table| parse_let::definitions(&table, &defined)).unwrap_or_default();
    defined.definitions = Some(&definitions);
    let scope = defined.scope();
    let of_tune = tune_table.map(|table| parse_tune::constraints(table, &scope)).unwrap_or_default();
    let tune = Tune::new(parse_tune::with_conditions(&tunables, &conditions, &scope), of_tune);
    let launch = root.table("launch").and_then(|table| parse_launch::launch(table, &defined));
    let cpu = root.table("cpu").and_then(|table| cpu(table, &defined));
    let forward = root.table("forward").and_then(|table| forward(table, &root, call.as_ref()));
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
        let label =
            if written == 0 { "no [workload.NAME] at all" } else { "no workload has the purpose \"verify\"" };
        root.report(problem, &root.place(), label);
    }
    let flashinfer = root.table("flashinfer").map(flashinfer::flashinfer);
    parse_signature::distinct_arguments(&root, &defined, call.as_ref());
    root.finish();
    let (inputs, outputs, call) = (inputs?, outputs?, call?);
    Some(OpSpec {
        file: Arc::clone(file),
        name: name?,
        description,
        axes,
        dtypes,
        inputs,
        scalars,
        outputs,
        constraints,
        reference: reference?,
        gradient,
        call,
        tolerance: tolerance?,
        definitions,
        tune,
        launch,
        cpu,
        forward,
        workloads,
        flashinfer,
    })
}

/// `constraints`; those with a problem are reported and left out.
fn constraints(root: &mut Table<'_>, defined: &Defined<'_>) -> Vec<BoolExpr> {
    let Some(node) = root.node("constraints") else { return Vec::new() };
    let scope = defined.scope();
    let items = node.items().unwrap_or_default();
    items.iter().filter_map(|item| expr::boolean(item, &scope)).collect()
}

/// `None` where the file cannot be read as this format.
fn format(root: &mut Table<'_>) -> Option<()> {
    let found = root.require::<u64>("format", "format = 1")?;
    if found.value == FORMAT {
        return Some(());
    }
    let message = format!(
        "op.toml uses format {}, but this version of kernelwright reads format {FORMAT}",
        found.value
    );
    let problem =
        Problem::error(codes::OP_FORMAT, message).help("write `format = 1`, or update kernelwright");
    root.report(problem, &found.span, "another format");
    None
}

fn axes(table: Table<'_>) -> Vec<Axis> {
    let entries = table.entries();
    entries
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name(&key, &node, codes::NOT_AN_IDENTIFIER);
            let (kind, leading) = axis_kind(node.table()?);
            Some(Axis { name: name?, kind: kind?, leading })
        })
        .collect()
}

/// What an axis is, and whether it is a leading one.
fn axis_kind(mut table: Table<'_>) -> (Option<AxisKind>, bool) {
    let Some(kind) = table.require::<String>("type", "{ type = \"var\" }") else { return (None, false) };
    let mut leading = false;
    let axis = match kind.value.as_str() {
        "const" => table
            .require("value", "{ type = \"const\", value = 128 }")
            .map(|value| AxisKind::Const(value.value)),
        "var" => {
            let multiple_of = table.get::<u64>("multiple-of");
            let min = table.get::<u64>("min");
            let max = table.get::<u64>("max");
            leading = table.get::<bool>("leading").is_some_and(|leading| leading.value);
            if let Some(zero) = multiple_of.as_ref().filter(|multiple| multiple.value == 0) {
                let problem = Problem::error(codes::BAD_VALUE, "`multiple-of` cannot be 0")
                    .help("remove `multiple-of`, or write 1 or more");
                table.report(problem, &zero.span, "must be 1 or more");
            }
            if let (Some(min), Some(max)) = (&min, &max)
                && min.value > max.value
            {
                let message = format!("the range of lengths is empty: {} is above {}", min.value, max.value);
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
            let problem = Problem::error(codes::BAD_VALUE, format!("`{other}` is not a kind of axis")).help(
                "valid values: \"var\" (each workload sets the length) and \"const\" (with value = 128)",
            );
            table.report(problem, &kind.span, "here");
            return (None, false);
        }
    };
    table.finish();
    (axis, leading)
}

fn dtypes(table: Table<'_>) -> Vec<TypeVariable> {
    let entries = table.entries();
    entries
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name::<PythonName>(&key, &node, codes::NOT_AN_IDENTIFIER);
            if key.value.parse::<Dtype>().is_ok() {
                let message = format!("the type variable `{}` has the same name as a dtype", key.value);
                let problem =
                    Problem::error(codes::DUPLICATE_NAME, message).help("rename it, for example to T");
                node.report(problem, &key.span, "a dtype already");
            }
            let mut dtypes: Vec<Dtype> = Vec::new();
            if node.items()?.is_empty() {
                let problem = Problem::error(codes::EMPTY_LIST, format!("`{}` has no dtypes", node.path()))
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

fn cpu(mut table: Table<'_>, defined: &Defined<'_>) -> Option<Cpu> {
    let source = table.require::<RelPath>("source", "source = \"rms_norm_cpu/rms_norm.cpp\"");
    if let Some(source) = source.as_ref().filter(|source| source.extension() != Some("cpp")) {
        let message = format!("`{}` is not a C++ file", source.value);
        let problem = Problem::error(codes::BAD_VALUE, message)
            .help("[cpu] names one `.cpp` file, which may include headers");
        table.report(problem, &source.span, "does not end in `.cpp`");
    }
    let entry = table.require("entry", "entry = \"rms_norm_cpu\"");
    let number = |table: &mut Table<'_>, key, example| {
        let node = table.require_node(key, example);
        node.and_then(|node| expr::integer(&node, &defined.axes_scope()))
    };
    let over = number(&mut table, "over", "over = \"rows\"");
    let grain = number(&mut table, "grain", "grain = \"max(1, 32768 / hidden)\"");
    table.finish();
    Some(Cpu { source: source?, entry: entry?, over: over?, grain: grain? })
}

/// `[forward]`, beside which nothing else says how the function is computed.
fn forward(mut table: Table<'_>, root: &Table<'_>, call: Option<&Call>) -> Option<Forward> {
    let regions = table.list::<RelPath>("regions");
    if regions.is_empty() {
        let problem = Problem::error(codes::EMPTY_LIST, "`forward.regions` is empty")
            .help("list files in the format of op.toml, one for each operator: regions = [\"mlp_1.toml\"]");
        table.report(problem, &table.place(), "at least one entry is needed");
    }
    let others = ["launch", "cpu", "gradient"];
    for other in others.into_iter().filter(|other| root.toml().contains_key(*other)) {
        let message = format!("[forward] and [{other}] cannot be used together");
        let problem = Problem::error(codes::BAD_VALUE, message)
            .help(format!("the files of `forward.regions` have kernels; remove [{other}] here"));
        table.report(problem, &table.place(), "here");
    }
    if let Some(out) = call.and_then(|call| call.out.first()) {
        let problem = Problem::error(codes::BAD_VALUE, "`call.out` is not supported with [forward]")
            .help("remove `out`: the function returns new tensors");
        table.report(problem, &out.span, "here");
    }
    table.finish();
    Some(Forward { regions })
}

fn tolerance(mut table: Table<'_>, defined: &Defined<'_>) -> Option<Tolerance> {
    let accumulate = table.require::<Dtype>("accumulate", "accumulate = \"f32\"");
    if let Some(dtype) = accumulate.as_ref().filter(|dtype| !dtype.is_float()) {
        let problem =
            Problem::error(codes::BAD_VALUE, format!("sums cannot be accumulated in `{}`", dtype.value))
                .help("`accumulate` must be a floating-point dtype, usually f32");
        table.report(problem, &dtype.span, "not a floating-point dtype");
    }
    let length = table.require_node("length", "length = \"hidden\"");
    let length = length.and_then(|node| expr::integer(&node, &defined.axes_scope()));
    let roundings = table.require("roundings", "roundings = 1");
    let cancels = table.get("cancels").is_some_and(|cancels| cancels.value);
    let from_rounded = table.get("from-rounded").is_some_and(|from_rounded| from_rounded.value);
    table.finish();
    let (length, roundings) = (length?, roundings?);
    Some(Tolerance { accumulate: accumulate?, length, roundings, cancels, from_rounded })
}
