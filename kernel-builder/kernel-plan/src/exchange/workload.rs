//! Reads the workloads of flashinfer-bench: a list, JSON lines, or the workloads in lines of traces.
//!
//! Owns: their keys (flashinfer-bench 0.1.2, `data/workload.py` and `data/trace.py`), and that each fits its definition.
//! Never: reads a tensor file; it keeps the name of one.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::diagnostic::{Problem, SourceFile};
use crate::spec::Spanned;
use crate::spec::op::ScalarValue;
use crate::units::{Dtype, PythonName};

use super::codes;
use super::definition::{Argument, Definition, filled};
use super::json::{Document, Literal, Node, Object};

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    pub(super) uuid: Spanned<String>,
    /// The length of every variable axis, in the order of the definition.
    pub(super) axes: Vec<(PythonName, u64)>,
    /// The numbers that are passed, in argument order; the others are drawn.
    pub(super) scalars: Vec<(PythonName, ScalarValue)>,
    /// The tensors that come from files, in argument order.
    pub(super) stored: Vec<(PythonName, Stored)>,
}

/// A tensor in a safetensors file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stored {
    pub(super) path: String,
    pub(super) key: String,
}

impl Workload {
    /// Whether nothing but the places in the file differs.
    fn same(&self, other: &Self) -> bool {
        self.axes == other.axes && self.scalars == other.scalars && self.stored == other.stored
    }
}

/// Reads the whole file; workloads with a problem are reported and left out.
pub(super) fn read(file: &Arc<SourceFile>, definition: &Definition) -> (Vec<Workload>, Vec<Problem>) {
    let document = Document::new(file);
    let mut reading = Reading { definition, found: Vec::new(), traces: 0, others: 0, first_other: None };
    if is_json(&file.text) || file.text.trim_start().starts_with('[') {
        let node = document.value(&file.text);
        let items = node.map(|node| node.items().unwrap_or_else(|| vec![node])).unwrap_or_default();
        items.into_iter().for_each(|node| reading.take(node));
    } else {
        for line in file.text.lines().filter(|line| !line.trim().is_empty()) {
            // What follows a line that is not JSON is nearly always its continuation.
            let Some(node) = document.value(line) else { break };
            reading.take(node);
        }
    }
    let Reading { found, traces, others, first_other, .. } = reading;
    if traces > 0 {
        let message = format!("{traces} lines hold results of solutions, which op.toml does not support");
        document.push(Problem::warning(codes::DROPPED, message).help("their workloads are kept"));
    }
    if let Some(place) = first_other {
        let message =
            format!("{others} workloads belong to definitions other than `{}`", definition.name.value);
        let problem = Problem::warning(codes::DROPPED, message)
            .at(file, &place.span, "the first of them")
            .help("they are ignored; import their definitions separately");
        document.push(problem);
    }
    (found, document.finish())
}

/// Whether a text is one JSON value: a list, or a single workload over several lines.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

struct Reading<'r> {
    definition: &'r Definition,
    found: Vec<Workload>,
    traces: usize,
    others: usize,
    first_other: Option<Spanned<String>>,
}

impl Reading<'_> {
    /// Takes one item: a workload, or a trace that has one.
    fn take(&mut self, node: Node<'_>) {
        let example = "{ \"uuid\": \"w1\", \"axes\": { \"M\": 16 }, \"inputs\": {} }";
        let Some(object) = node.object(example) else { return };
        let Some(inner) = object.get("workload") else {
            return self.keep(workload(&object, self.definition));
        };
        let Some(name) =
            object.require("definition", "\"rmsnorm_h4096\"").and_then(|node| node.text("\"x\""))
        else {
            return;
        };
        let result = [object.get("solution"), object.get("evaluation")].iter().any(Option::is_some);
        self.traces += usize::from(result);
        if name.value != self.definition.name.value {
            self.others += 1;
            self.first_other.get_or_insert(name);
            return;
        }
        object.finish();
        if let Some(object) = inner.object(example) {
            self.keep(workload(&object, self.definition));
        }
    }

    /// Keeps a workload once; several results of one workload repeat it.
    fn keep(&mut self, workload: Option<(Workload, Node<'_>)>) {
        let Some((workload, node)) = workload else { return };
        match self.found.iter().find(|earlier| earlier.uuid.value == workload.uuid.value) {
            None => self.found.push(workload),
            Some(earlier) if earlier.same(&workload) => {}
            Some(earlier) => {
                let message = format!("two different workloads have the uuid `{}`", workload.uuid.value);
                let problem = Problem::error(codes::DUPLICATE, message)
                    .at(node.document().file, &workload.uuid.span, "the second")
                    .at(node.document().file, &earlier.uuid.span, "the first")
                    .help("give one of them another uuid");
                node.document().push(problem);
            }
        }
    }
}

/// The workload, and the node of its uuid.
fn workload<'d>(object: &Object<'d>, definition: &Definition) -> Option<(Workload, Node<'d>)> {
    let uuid_node = object.require("uuid", "\"w1\"");
    let uuid = uuid_node.and_then(|node| filled(node, "\"w1\""));
    let axes = object.require("axes", "{ \"M\": 16 }").and_then(|node| axes(node, definition));
    let inputs = object.require("inputs", "{ \"x\": { \"type\": \"random\" } }");
    let inputs = inputs.and_then(|node| inputs_of(node, definition));
    object.finish();
    let (scalars, stored) = inputs?;
    Some((Workload { uuid: uuid?, axes: axes?, scalars, stored }, uuid_node?))
}

fn axes(node: Node<'_>, definition: &Definition) -> Option<Vec<(PythonName, u64)>> {
    let object = node.object("{ \"M\": 16 }")?;
    let mut complete = true;
    let mut lengths = Vec::new();
    for axis in &definition.axes {
        let name = &axis.name.value;
        let length = match object.get(name.as_str()) {
            Some(value) => match value.length() {
                Some(length) => {
                    if axis.length.is_some_and(|fixed| fixed != length) {
                        let fixed = axis.length.unwrap_or_default();
                        let message = format!("`{name}` is always {fixed}, but the workload has {length}");
                        let problem = Problem::error(codes::WORKLOAD, message)
                            .help("remove it here, or make the axis variable in the definition");
                        value.report(problem, "another length");
                    }
                    length
                }
                None => {
                    complete = false;
                    continue;
                }
            },
            None if axis.length.is_some() => continue,
            None => {
                let message = format!("the workload has no length for `{name}`");
                let problem = Problem::error(codes::WORKLOAD, message).help(format!(
                    "add \"{name}\": ... to `axes`; the definition declares the axis variable"
                ));
                node.report(problem, "incomplete");
                complete = false;
                continue;
            }
        };
        if axis.length.is_none() {
            lengths.push((name.clone(), length));
        }
    }
    object.finish_names();
    complete.then_some(lengths)
}

type Inputs = (Vec<(PythonName, ScalarValue)>, Vec<(PythonName, Stored)>);

fn inputs_of(node: Node<'_>, definition: &Definition) -> Option<Inputs> {
    let object = node.object("{ \"x\": { \"type\": \"random\" } }")?;
    let (mut scalars, mut stored) = (Vec::new(), Vec::new());
    let mut complete = true;
    for argument in &definition.inputs {
        let name = &argument.name.value;
        let Some(value) = object.get(name.as_str()) else { continue };
        match input(value, argument) {
            Some(Given::Drawn) => {}
            Some(Given::Scalar(number)) => scalars.push((name.clone(), number)),
            Some(Given::Stored(place)) => stored.push((name.clone(), place)),
            None => complete = false,
        }
    }
    object.finish_names();
    complete.then_some((scalars, stored))
}

/// Where a value comes from.
enum Given {
    Drawn,
    Scalar(ScalarValue),
    Stored(Stored),
}

fn input(node: Node<'_>, argument: &Argument) -> Option<Given> {
    let object = node.object("{ \"type\": \"random\" }")?;
    let kind = object.require("type", "\"random\"")?;
    let name = &argument.name.value;
    let given = match (kind.text("\"random\"")?.value.as_str(), &argument.shape) {
        ("random", _) => Some(Given::Drawn),
        ("scalar", None) => {
            object.require("value", "1e-6").and_then(|node| scalar(node, argument)).map(Given::Scalar)
        }
        ("scalar", Some(_)) => {
            let problem = Problem::error(
                codes::WORKLOAD,
                format!("`{name}` is a tensor, but the workload passes a number"),
            )
            .help("write { \"type\": \"random\" }, or make its shape null in the definition");
            kind.report(problem, "a number for a tensor");
            None
        }
        ("safetensors", Some(_)) => {
            let path = object.require("path", "\"q.safetensors\"");
            let key = object.require("tensor_key", "\"q\"");
            let path = path.and_then(|node| filled(node, "\"q.safetensors\""));
            let key = key.and_then(|node| filled(node, "\"q\""));
            match (path, key) {
                (Some(path), Some(key)) => Some(Given::Stored(Stored { path: path.value, key: key.value })),
                _ => None,
            }
        }
        ("safetensors", None) => {
            let problem = Problem::error(
                codes::WORKLOAD,
                format!("`{name}` is a number, but the workload passes a tensor"),
            )
            .help("write { \"type\": \"scalar\", \"value\": ... }");
            kind.report(problem, "a tensor for a number");
            None
        }
        (other, _) => {
            let problem = Problem::error(codes::UNSUPPORTED, format!("`{other}` is not a source of inputs"))
                .help("valid values: \"random\", \"scalar\" and \"safetensors\"");
            kind.report(problem, "here");
            // Its other keys belong to it.
            object.entries();
            None
        }
    };
    object.finish();
    given
}

/// A number of the kind that the argument's dtype asks for.
fn scalar(node: Node<'_>, argument: &Argument) -> Option<ScalarValue> {
    let literal = node.literal()?;
    let (value, wanted) = match (kind_of(argument.dtype), literal) {
        (ScalarValue::Bool(_), Literal::Bool(value)) => (Some(ScalarValue::Bool(value)), ""),
        (ScalarValue::Bool(_), _) => (None, "true or false"),
        (ScalarValue::Int(_), Literal::Integer(value)) => (Some(ScalarValue::Int(value)), ""),
        (ScalarValue::Int(_), _) => (None, "an integer"),
        (ScalarValue::Float(_), Literal::Float(value)) => (Some(ScalarValue::Float(value)), ""),
        (ScalarValue::Float(_), Literal::Integer(value)) => (Some(ScalarValue::Float(value as f64)), ""),
        (ScalarValue::Float(_), Literal::Bool(_)) => (None, "a number"),
    };
    if value.is_none() {
        let (name, dtype) = (&argument.name.value, argument.dtype.torch_name());
        let problem =
            Problem::error(codes::WORKLOAD, format!("`{name}` is a {dtype}, but this value is not"))
                .help(format!("write {wanted}, or change the dtype in the definition"));
        node.report(problem, format!("not {wanted}"));
    }
    value
}

/// The kind of Python number that stands for a dtype, as the value to assume where nobody gives one.
pub(super) fn kind_of(dtype: Dtype) -> ScalarValue {
    match dtype {
        Dtype::Bool => ScalarValue::Bool(false),
        dtype if dtype.is_float() => ScalarValue::Float(1.0),
        _ => ScalarValue::Int(1),
    }
}
