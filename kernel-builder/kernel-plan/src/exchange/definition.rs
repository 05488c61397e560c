//! Reads a definition of flashinfer-bench.
//!
//! Owns: its keys (flashinfer-bench 0.1.2, `data/definition.py`), its dtypes, and what is wrong with one by itself.
//! Never: makes op.toml of it; `op_text` does.

use std::str::FromStr;
use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, did_you_mean};
use crate::spec::Spanned;
use crate::units::{Dtype, PythonName, UnitError};

use super::json::{Document, Literal, Node, Object};
use super::{codes, python};

/// What an operation means, in the words of flashinfer-bench, and in ours where a type says more than a text.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: Spanned<String>,
    pub(super) op_type: String,
    pub(super) description: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) constraints: Vec<String>,
    pub(super) axes: Vec<Axis>,
    /// In argument order; scalars are among them.
    pub(super) inputs: Vec<Argument>,
    pub(super) outputs: Vec<Argument>,
    pub(super) reference: String,
}

#[derive(Debug)]
pub(super) struct Axis {
    pub(super) name: Spanned<PythonName>,
    /// The length of a constant axis.
    pub(super) length: Option<u64>,
    pub(super) description: Option<String>,
}

/// An input or output.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) name: Spanned<PythonName>,
    /// Axis names; `None` for a Python number.
    pub(super) shape: Option<Vec<PythonName>>,
    pub(super) dtype: Dtype,
    /// An input for which `None` may be passed; not of 0.1.2, and in definitions that people share.
    pub(super) optional: bool,
    pub(super) description: Option<String>,
}

/// Reads the whole file; the definition is there as soon as every value that it needs could be read.
pub(super) fn read(file: &Arc<SourceFile>) -> (Option<Definition>, Vec<Problem>) {
    let document = Document::new(file);
    let found = document.value(&file.text).and_then(|node| definition(node));
    (found, document.finish())
}

fn definition(node: Node<'_>) -> Option<Definition> {
    let object = node.object("{ \"name\": \"rmsnorm_h4096\", ... }")?;
    let name = object.require("name", "\"rmsnorm_h4096\"").and_then(|node| filled(node, "\"rmsnorm_h4096\""));
    let op_type = object.require("op_type", "\"rmsnorm\"").and_then(|node| filled(node, "\"rmsnorm\""));
    let description = object.get("description").and_then(|node| node.text("\"what it computes\""));
    let tags = object.get("tags").map_or(Some(Vec::new()), |node| texts(node, "[\"status:verified\"]"));
    let constraints = object.get("constraints").map_or(Some(Vec::new()), |node| texts(node, "[\"M >= 1\"]"));
    let axes = object.require("axes", "{ \"M\": { \"type\": \"var\" } }").and_then(axes);
    let known: Vec<_> = axes.iter().flatten().map(|axis| axis.name.value.as_str()).collect();
    // Where an axis could not be read, nothing is said about who uses it.
    let known = axes.as_ref().map(|_| known.as_slice());
    let example = "{ \"x\": { \"shape\": [\"M\"], \"dtype\": \"float32\" } }";
    let inputs = object.require("inputs", example).and_then(|node| arguments(node, "input", known));
    let outputs = object.require("outputs", example).and_then(|node| arguments(node, "output", known));
    if let (Some(inputs), Some(outputs)) = (&inputs, &outputs) {
        for output in outputs {
            if let Some(input) = inputs.iter().find(|input| input.name.value == output.name.value) {
                let name = &output.name.value;
                let problem =
                    Problem::error(codes::DUPLICATE, format!("`{name}` is both an input and an output"))
                        .at(node.document().file, &output.name.span, "the output")
                        .at(node.document().file, &input.name.span, "the input")
                        .help("rename one of them, also in `reference`");
                node.document().push(problem);
            }
        }
    }
    let reference = object.require("reference", "\"def run(x):\\n    return x\"").and_then(reference);
    object.finish();
    Some(Definition {
        name: name?,
        op_type: op_type?.value,
        description: description.map(|text| text.value),
        tags: tags?,
        constraints: constraints?,
        axes: axes?,
        inputs: inputs?,
        outputs: outputs?,
        reference: reference?,
    })
}

/// A string with something in it.
pub(super) fn filled(node: Node<'_>, example: &str) -> Option<Spanned<String>> {
    let text = node.text(example)?;
    if text.value.is_empty() {
        let problem = Problem::error(codes::BAD_VALUE, "this text must not be empty")
            .help(format!("for example: {example}"));
        node.report(problem, "empty");
        return None;
    }
    Some(text)
}

fn texts(node: Node<'_>, example: &str) -> Option<Vec<String>> {
    node.list(example)?.into_iter().map(|node| Some(filled(node, "\"text\"")?.value)).collect()
}

/// A name that becomes one of Python and of op.toml.
fn identifier(text: &Spanned<String>, document: &Document<'_>) -> Option<Spanned<PythonName>> {
    match PythonName::from_str(&text.value) {
        Ok(name) => Some(Spanned::new(name, text.span.clone())),
        Err(UnitError { text: found, kind, want }) => {
            let problem = Problem::error(codes::BAD_VALUE, format!("`{found}` is not {kind}")).help(want).at(
                document.file,
                &text.span,
                "here",
            );
            document.push(problem);
            None
        }
    }
}

/// The axes; `None` when one of them could not be read.
fn axes(node: Node<'_>) -> Option<Vec<Axis>> {
    let object = node.object("{ \"M\": { \"type\": \"var\" } }")?;
    let read = object.entries().iter().map(|entry| {
        let name = identifier(&entry.key, node.document());
        let axis = entry.value.object("{ \"type\": \"var\" }")?;
        let length = axis_length(&axis);
        let description = description(&axis);
        axis.finish();
        Some(Axis { name: name?, length: length?, description })
    });
    let read: Vec<_> = read.collect();
    read.into_iter().collect()
}

/// `Some(None)` for a variable axis.
fn axis_length(axis: &Object<'_>) -> Option<Option<u64>> {
    let kind = axis.require("type", "\"var\"")?;
    match kind.text("\"var\"")?.value.as_str() {
        "const" => Some(Some(axis.require("value", "4096")?.length()?)),
        "var" => Some(None),
        "expr" => {
            let problem = Problem::error(
                codes::UNSUPPORTED,
                "op.toml does not support axes that are computed from others",
            )
            .help("make it \"var\", and give its length in every workload");
            kind.report(problem, "an extension of flashinfer-bench's definitions");
            // Its other keys belong to it.
            axis.entries();
            None
        }
        other => {
            let problem = Problem::error(codes::BAD_VALUE, format!("`{other}` is not a kind of axis"))
                .help("valid values: \"var\" and \"const\"");
            kind.report(problem, "here");
            None
        }
    }
}

fn description(object: &Object<'_>) -> Option<String> {
    Some(object.get("description")?.text("\"what it is\"")?.value)
}

/// Inputs or outputs; `None` when one of them could not be read.
fn arguments(node: Node<'_>, what: &str, axes: Option<&[&str]>) -> Option<Vec<Argument>> {
    let object = node.object("{ \"x\": { \"shape\": [\"M\"], \"dtype\": \"float32\" } }")?;
    let read: Vec<_> = object
        .entries()
        .iter()
        .map(|entry| argument(entry.value, &entry.key, axes, what == "input"))
        .collect();
    let read: Option<Vec<Argument>> = read.into_iter().collect();
    let taken = |argument: &&Argument| matches!(argument.name.as_str(), "run" | "torch");
    if let Some(argument) = read.iter().flatten().find(taken) {
        let name = &argument.name.value;
        let message = format!("`{name}` cannot be an {what}: the reference needs that name");
        let problem = Problem::error(codes::UNSUPPORTED, message)
            .at(node.document().file, &argument.name.span, "here")
            .help("rename it; the parameters of `run` need not change");
        node.document().push(problem);
        return None;
    }
    let tensors = read.iter().flatten().filter(|argument| what == "output" || argument.shape.is_some());
    if read.is_some() && tensors.count() == 0 {
        let message = format!("op.toml needs at least one tensor among the {what}s");
        let problem = Problem::error(codes::UNSUPPORTED, message)
            .help("pass a number as a tensor without axes: \"shape\": []");
        node.report(problem, "no tensor here");
        return None;
    }
    read
}

fn argument(
    node: Node<'_>,
    key: &Spanned<String>,
    axes: Option<&[&str]>,
    is_input: bool,
) -> Option<Argument> {
    let name = identifier(key, node.document());
    let object = node.object("{ \"shape\": [\"M\"], \"dtype\": \"float32\" }")?;
    let shape = object.require("shape", "[\"M\"]").and_then(|node| {
        if node.is_null() {
            return Some(None);
        }
        let items = node.list("[\"M\", \"K\"]")?;
        let shape: Vec<_> = items.into_iter().map(|node| axis_name(node, axes)).collect();
        Some(Some(shape.into_iter().collect::<Option<Vec<_>>>()?))
    });
    let dtype = object.require("dtype", "\"bfloat16\"").and_then(dtype);
    let description = description(&object);
    let optional = match &shape {
        Some(Some(_)) if is_input => {
            object.get("optional").map_or(Some(false), |node| match node.literal()? {
                Literal::Bool(optional) => Some(optional),
                _ => node.wrong_type("a boolean", "true"),
            })
        }
        _ => Some(false),
    };
    object.finish();
    Some(Argument { name: name?, shape: shape?, dtype: dtype?, optional: optional?, description })
}

fn axis_name(node: Node<'_>, axes: Option<&[&str]>) -> Option<PythonName> {
    let text = node.text("\"M\"")?;
    let axes = axes?;
    if !axes.contains(&text.value.as_str()) {
        let label = did_you_mean(&text.value, axes.iter().copied(), "not defined");
        let problem = Problem::error(codes::UNKNOWN_AXIS, format!("`axes` does not define `{}`", text.value))
            .help(format!("the axes are {}", axes.join(", ")));
        node.report(problem, label);
        return None;
    }
    text.value.parse().ok()
}

/// The dtypes that both formats have, by their names in flashinfer-bench, which are PyTorch's.
pub(super) fn dtype_name(dtype: Dtype) -> Option<&'static str> {
    // flashinfer-bench has no double precision.
    (dtype != Dtype::F64).then(|| dtype.torch_name())
}

fn dtype(node: Node<'_>) -> Option<Dtype> {
    let text = node.text("\"bfloat16\"")?;
    let names = || Dtype::ALL.iter().filter_map(|dtype| Some((*dtype, dtype_name(*dtype)?)));
    if let Some((dtype, _)) = names().find(|(_, name)| *name == text.value) {
        return Some(dtype);
    }
    let known: Vec<_> = names().map(|(_, name)| name).collect();
    let help = format!("both formats have {}", known.join(", "));
    // Dtypes of flashinfer-bench and of PyTorch, not misspelled ones.
    if text.value.starts_with("float4") || text.value == "uint8" {
        let problem = Problem::error(
            codes::UNSUPPORTED,
            format!("op.toml does not support the dtype `{}`", text.value),
        );
        node.report(problem.help(help), "no counterpart");
        return None;
    }
    let label = did_you_mean(&text.value, known.iter().copied(), "here");
    let problem = Problem::error(codes::BAD_VALUE, format!("`{}` is not a dtype", text.value)).help(help);
    node.report(problem, label);
    None
}

fn reference(node: Node<'_>) -> Option<String> {
    let text = filled(node, "\"def run(x):\\n    return x\"")?;
    if !python::defines(&text.value, "run") {
        let problem = Problem::error(codes::RUN, "the reference defines no function `run`")
            .help("write `def run(...)` at the beginning of a line; it is called with every input in order");
        node.report(problem, "no `def run(` in this text");
        return None;
    }
    Some(text.value)
}
