//! Makes definitions and workloads of flashinfer-bench from op.toml and its reference.
//!
//! Owns: one definition for each choice of dtypes, in the words of flashinfer-bench 0.1.2, and what is left out.
//! Never: changes the reference; `run_source` adds a function to it where one is needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::diagnostic::{Problem, SourceFile, has_errors};
use crate::spec::OpSpec;
use crate::spec::flashinfer::Flashinfer;
use crate::spec::op::{AxisKind, ScalarValue, Tensor, TensorDtype, Values, Workload};
use crate::units::{Dtype, PythonName};

use super::definition::dtype_name;
use super::op_text::default_dtype;
use super::run_source::{self, RunSource};
use super::workload::kind_of;
use super::{argument_order, bounds, codes};

/// What of op.toml is exported.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// What type variables stand for; one that is not here stands for each of its dtypes.
    pub dtypes: Vec<(PythonName, Dtype)>,
    /// Which workloads are published.
    pub workloads: Published,
}

/// Which workloads an export has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Published {
    /// All but those that are held out: whoever reads a published workload can tune for it.
    #[default]
    Open,
    /// All of them.
    All,
}

/// One definition with its workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Its name, with the dtypes where there are type variables; fit for a file name.
    pub name: String,
    /// Its category; fit for the name of a folder.
    pub op_type: String,
    /// The text of the definition, JSON.
    pub definition: String,
    /// One line for each workload: a trace without a result, JSON.
    pub workloads: String,
    /// How many workloads there are.
    pub count: usize,
}

/// What each type variable stands for.
type Assignment = BTreeMap<PythonName, Dtype>;

/// Makes a definition for each choice of dtypes. `reference` is the file that `[reference]` names.
///
/// The list is empty when a problem is an error. Warnings and notes say what was left out.
pub fn export(op: &OpSpec, reference: &Arc<SourceFile>, choice: &Choice) -> (Vec<Exported>, Vec<Problem>) {
    let empty = Flashinfer::default();
    let section = op.flashinfer.as_ref().unwrap_or(&empty);
    let mut problems = Vec::new();
    let run = match run_source::run_source(op, section, reference) {
        Ok(run) => Some(run),
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
    let name = section.name.as_deref().unwrap_or(op.name.as_str());
    let op_type = section.op_type.as_deref().unwrap_or(op.name.as_str());
    for text in [name, op_type] {
        problems.extend(refuse_file_name(op, text));
    }
    problems.extend(unsupported(op, section));
    problems.extend(left_out(op));
    let assignments = assignments(op, choice, &mut problems);
    let published: Vec<_> =
        op.workloads.iter().filter(|workload| is_published(op, workload, choice, &mut problems)).collect();
    problems.sort_by_key(Problem::offset);
    let Some(run) = run.filter(|_| !has_errors(&problems)) else { return (Vec::new(), problems) };
    let export = |assignment: &Assignment| {
        let dtypes: Vec<_> =
            op.dtypes.iter().filter_map(|variable| assignment.get(&variable.name.value)).collect();
        let name = dtypes.iter().fold(name.to_owned(), |name, dtype| format!("{name}_{dtype}"));
        let definition = definition(op, section, &name, op_type, &run, assignment);
        let fits = published.iter().filter(|workload| takes(workload, assignment));
        let lines: Vec<_> = fits.map(|workload| trace(op, section, &name, workload)).collect();
        Exported {
            definition: format!("{definition:#}\n"),
            workloads: lines.iter().map(|line| format!("{line}\n")).collect(),
            count: lines.len(),
            op_type: op_type.to_owned(),
            name,
        }
    };
    (assignments.iter().map(export).collect(), problems)
}

fn refuse_file_name(op: &OpSpec, text: &str) -> Option<Problem> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if text.chars().all(fits) && !text.starts_with('.') && !text.is_empty() {
        return None;
    }
    let problem = Problem::error(codes::BAD_VALUE, format!("`{text}` cannot be the name of a file"))
        .at(&op.file, &op.name.span, "this operation")
        .help("use letters, digits, `-`, `_` and `.` in `name` and `op-type` of [flashinfer]");
    Some(problem)
}

/// What a definition cannot say, and without which the operation would be another.
fn unsupported(op: &OpSpec, section: &Flashinfer) -> Vec<Problem> {
    let tensors = tensors(op).filter_map(|tensor| match tensor.dtype.value {
        TensorDtype::Fixed(dtype) if dtype_name(dtype).is_none() => {
            let name = &tensor.name.value;
            let problem = Problem::error(
                codes::UNSUPPORTED,
                format!("`{name}` is {dtype}, which flashinfer-bench does not support"),
            )
            .help("it supports bf16, f16, f32, f8e4m3, f8e5m2, integers and bool");
            Some(problem.at(&op.file, &tensor.dtype.span, "here"))
        }
        _ => None,
    });
    let scalars = op.scalars.iter().filter_map(|scalar| {
        let wanted = section.scalar(&scalar.name.value)?;
        let dtype = Dtype::ALL.iter().find(|dtype| dtype_name(**dtype) == Some(wanted));
        let fits = dtype.is_some_and(|dtype| same_kind(kind_of(*dtype), scalar.default.value));
        let name = &scalar.name.value;
        let message = format!("the scalar `{name}` cannot have the dtype `{wanted}` in a definition");
        let problem = Problem::error(codes::BAD_VALUE, message)
            .at(&op.file, &scalar.name.span, "the scalar")
            .help("remove it from [flashinfer.scalars], or name a dtype of its kind: float32, int32, bool");
        (!fits).then_some(problem)
    });
    tensors.chain(scalars).collect()
}

fn same_kind(left: ScalarValue, right: ScalarValue) -> bool {
    std::mem::discriminant(&left) == std::mem::discriminant(&right)
}

fn tensors(op: &OpSpec) -> impl Iterator<Item = &Tensor> {
    let inputs = op.inputs.iter().map(|input| &input.tensor);
    inputs.chain(op.outputs.iter().map(|output| &output.tensor))
}

/// What a definition has no place for.
fn left_out(op: &OpSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut warn = |message: String, span: &std::ops::Range<usize>, help: &str| {
        let problem = Problem::warning(codes::DROPPED, message).at(&op.file, span, "here");
        problems.push(problem.help(help));
    };
    for input in &op.inputs {
        let name = &input.tensor.name;
        if input.optional {
            let message =
                format!("`{}` may be None, and flashinfer-bench 0.1.2 always passes it", name.value);
            warn(message, &name.span, "workloads without it are left out");
        }
        if input.values == Values::Seed {
            let message =
                format!("`{}` is a seed, and an integer tensor like any other in a definition", name.value);
            warn(message, &name.span, "workloads give it small numbers");
        }
        if input.strided {
            let message =
                format!("`{}` is row-major in a definition, and may have any strides here", name.value);
            warn(message, &name.span, "solutions are judged only on row-major inputs");
        }
    }
    for output in op.outputs.iter().filter(|output| output.inplace.is_some()) {
        let message = format!(
            "`{}` is a new tensor in a definition, and overwrites an input here",
            output.tensor.name.value
        );
        warn(message, &output.tensor.name.span, "the reference returns it, as every output");
    }
    for scalar in op.scalars.iter().filter(|scalar| scalar.min.is_some() || scalar.max.is_some()) {
        let message = format!(
            "a definition does not bound scalars, so the range of `{}` is left out",
            scalar.name.value
        );
        warn(message, &scalar.name.span, "the values in the workloads are within it");
    }
    let mut sections = vec!["`[tolerance]`", "`[call]`"];
    let optional = [
        (op.reference.fused.is_some(), "`reference.fused`"),
        (!op.constraints.is_empty(), "`constraints`"),
        (op.gradient.is_some(), "`[gradient]`"),
        (!op.tune.tunables.is_empty(), "`[tune]`"),
        (op.launch.is_some(), "`[launch]`"),
        (op.forward.is_some(), "`[forward]`"),
    ];
    sections.extend(optional.iter().filter(|(there, _)| *there).map(|(_, name)| *name));
    sections.push("purpose, devices and weight of workloads");
    let message = format!("a definition does not support {}", sections.join(", "));
    problems.push(Problem::note(codes::DROPPED, message).help("they stay in op.toml"));
    problems
}

/// Every choice of dtypes that the caller and flashinfer-bench allow, the last variable changing fastest.
fn assignments(op: &OpSpec, choice: &Choice, problems: &mut Vec<Problem>) -> Vec<Assignment> {
    for (name, dtype) in &choice.dtypes {
        let variable = op.dtypes.iter().find(|variable| variable.name.value == *name);
        let message = match variable {
            Some(variable) if variable.dtypes.contains(dtype) => continue,
            Some(_) => format!("the type variable `{name}` does not include `{dtype}`"),
            None => format!("`{name}` is not a type variable"),
        };
        let ranges = op.dtypes.iter().flat_map(|variable| {
            variable.dtypes.iter().map(|dtype| format!("{}={dtype}", variable.name.value))
        });
        let ranges: Vec<_> = ranges.collect();
        let help = if ranges.is_empty() {
            "the operation has no type variable".to_owned()
        } else {
            format!("valid values: {}", ranges.join(", "))
        };
        problems.push(Problem::error(codes::BAD_VALUE, message).help(help));
    }
    let mut all = vec![Assignment::new()];
    for variable in &op.dtypes {
        let name = &variable.name.value;
        let wanted: Vec<_> =
            choice.dtypes.iter().filter(|(other, _)| other == name).map(|(_, dtype)| *dtype).collect();
        let chosen = |dtype: &Dtype| wanted.is_empty() || wanted.contains(dtype);
        let (known, unknown): (Vec<_>, Vec<_>) = variable
            .dtypes
            .iter()
            .filter(|dtype| chosen(dtype))
            .partition(|dtype| dtype_name(**dtype).is_some());
        for dtype in unknown {
            let message =
                format!("flashinfer-bench does not support {dtype}, so `{name}` is not exported with it");
            let problem = Problem::warning(codes::DROPPED, message)
                .at(&op.file, &variable.name.span, "this type variable")
                .help("the other dtypes are exported");
            problems.push(problem);
        }
        let extend = |assignment: &Assignment| {
            let with = |dtype: &&Dtype| {
                let mut longer = assignment.clone();
                longer.insert(name.clone(), **dtype);
                longer
            };
            known.iter().map(with).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(extend).collect();
    }
    if all.is_empty() && !has_errors(problems) {
        let problem =
            Problem::error(codes::NOTHING, "flashinfer-bench supports no combination of these dtypes")
                .help("add one of bf16, f16, f32, f8e4m3, f8e5m2, an integer or bool to [dtypes]");
        problems.push(problem.at(&op.file, &op.name.span, "this operation"));
    }
    all
}

fn is_published(op: &OpSpec, workload: &Workload, choice: &Choice, problems: &mut Vec<Problem>) -> bool {
    let name = &workload.name.value;
    let (message, help) = if workload.held_out && choice.workloads == Published::Open {
        (format!("the workload `{name}` is held out, so it is not exported"), "export it with --held-out")
    } else if !workload.without.is_empty() {
        (
            format!("the workload `{name}` omits inputs, which a definition does not support"),
            "it is not exported",
        )
    } else {
        return true;
    };
    let problem = Problem::warning(codes::DROPPED, message).help(help);
    problems.push(problem.at(&op.file, &workload.name.span, "this workload"));
    false
}

fn takes(workload: &Workload, assignment: &Assignment) -> bool {
    workload
        .dtypes
        .iter()
        .all(|(name, dtypes)| assignment.get(name).is_some_and(|dtype| dtypes.contains(dtype)))
}

fn definition(
    op: &OpSpec,
    section: &Flashinfer,
    name: &str,
    op_type: &str,
    run: &RunSource,
    assignment: &Assignment,
) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("name", json!(name));
    if let Some(description) = &op.description {
        put("description", json!(description.value));
    }
    put("op_type", json!(op_type));
    if !section.tags.is_empty() {
        put("tags", json!(section.tags));
    }
    put("axes", axes(op, section));
    let constraints = constraints(op, section);
    if !constraints.is_empty() {
        put("constraints", json!(constraints));
    }
    let inputs = argument_order(op).into_iter().filter_map(|name| {
        let value = match op.inputs.iter().find(|input| input.tensor.name.as_str() == name) {
            Some(input) => {
                let tensor = &input.tensor;
                let mut value = json!({ "shape": tensor.shape, "dtype": dtype_of(tensor, assignment) });
                if input.optional {
                    value["optional"] = json!(true);
                }
                described(value, section.tensor(&tensor.name.value))
            }
            None => {
                let scalar = op.scalars.iter().find(|scalar| scalar.name.as_str() == name)?;
                let dtype = default_dtype(scalar.default.value).torch_name();
                let key = &scalar.name.value;
                let value = json!({ "shape": null, "dtype": section.scalar(key).unwrap_or(dtype) });
                described(value, section.tensor(key))
            }
        };
        Some((name.to_owned(), value))
    });
    let inputs = inputs.collect();
    put("inputs", Value::Object(inputs));
    let outputs = op.outputs.iter().map(|output| {
        let tensor = &output.tensor;
        let number =
            run.returns_numbers && section.numbers.iter().any(|name| name.value == tensor.name.value);
        let shape = if number { Value::Null } else { json!(tensor.shape) };
        let value = json!({ "shape": shape, "dtype": dtype_of(tensor, assignment) });
        (tensor.name.to_string(), described(value, section.tensor(&tensor.name.value)))
    });
    put("outputs", Value::Object(outputs.collect()));
    put("reference", json!(run.text));
    Value::Object(object)
}

fn axes(op: &OpSpec, section: &Flashinfer) -> Value {
    let axes = op.axes.iter().map(|axis| {
        let value = match axis.kind {
            AxisKind::Const(length) => json!({ "type": "const", "value": length }),
            AxisKind::Var { .. } => json!({ "type": "var" }),
        };
        (axis.name.to_string(), described(value, section.axis(&axis.name.value)))
    });
    Value::Object(axes.collect())
}

/// What the axes allow, then what is written besides.
fn constraints(op: &OpSpec, section: &Flashinfer) -> Vec<String> {
    op.axes.iter().flat_map(bounds::constraints).chain(section.constraints.iter().cloned()).collect()
}

fn dtype_of(tensor: &Tensor, assignment: &Assignment) -> Value {
    let dtype = match &tensor.dtype.value {
        TensorDtype::Fixed(dtype) => Some(*dtype),
        TensorDtype::Variable(name) => assignment.get(name).copied(),
    };
    json!(dtype.map(Dtype::torch_name))
}

fn described(mut value: Value, description: Option<&str>) -> Value {
    if let Some(description) = description {
        value["description"] = json!(description);
    }
    value
}

/// A workload as flashinfer-bench keeps it: a trace without solution and result.
fn trace(op: &OpSpec, section: &Flashinfer, definition: &str, workload: &Workload) -> Value {
    let stored = section.stored(&workload.name.value);
    let inputs = argument_order(op).into_iter().map(|name| {
        let scalar = op.scalars.iter().find(|scalar| scalar.name.as_str() == name);
        let file = stored.iter().find(|stored| stored.input.value == name);
        let value = match (scalar, file) {
            (Some(scalar), _) => {
                let value = workload.scalars.get(&scalar.name.value).unwrap_or(&scalar.default.value);
                json!({ "type": "scalar", "value": value })
            }
            (None, Some(file)) => json!({ "type": "safetensors", "path": file.path, "tensor_key": file.key }),
            (None, None) => json!({ "type": "random" }),
        };
        (name.to_owned(), value)
    });
    let inputs: Map<_, _> = inputs.collect();
    let variable = op.axes.iter().filter(|axis| matches!(axis.kind, AxisKind::Var { .. }));
    let axes: Map<_, _> = variable
        .filter_map(|axis| Some((axis.name.to_string(), json!(workload.axes.get(&axis.name.value)?))))
        .collect();
    let uuid = section.uuid(&workload.name.value).unwrap_or(workload.name.as_str());
    json!({
        "definition": definition,
        "workload": { "uuid": uuid, "axes": axes, "inputs": inputs },
        "solution": null,
        "evaluation": null,
    })
}
