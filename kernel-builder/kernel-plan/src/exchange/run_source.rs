//! Finds or adds `run` in a reference.
//!
//! Owns: when the reference can be published as it is, and when it cannot at all.
//! Never: changes what the reference computes.

use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile};
use crate::spec::OpSpec;
use crate::spec::flashinfer::Flashinfer;
use crate::spec::op::{ScalarValue, Tensor, TensorDtype};

use super::op_text::default_dtype;
use super::python::{self, Passed};
use super::{argument_order, codes};

/// The reference of a definition.
pub(super) struct RunSource {
    /// Python with a function `run`.
    pub(super) text: String,
    /// Whether `run` is that of an imported definition, which may return Python numbers.
    pub(super) returns_numbers: bool,
}

/// The source with a function `run` that is called with everything by position.
pub(super) fn run_source(
    op: &OpSpec,
    section: &Flashinfer,
    reference: &Arc<SourceFile>,
) -> Result<RunSource, Problem> {
    let source = reference.text.as_str();
    let function = op.reference.function.as_str();
    let order = argument_order(op);
    let inputs: Vec<_> = order.iter().filter_map(|name| passed(op, name)).collect();
    // What an import added goes away again.
    let is_number = |name: &str| section.numbers.iter().any(|number| number.as_str() == name);
    let outputs: Vec<_> = op.outputs.iter().map(|output| &output.tensor).collect();
    let returned: Vec<_> = outputs
        .iter()
        .map(|tensor| Passed { number: is_number(tensor.name.as_str()), ..tensor_passed(op, tensor) })
        .collect();
    let added = python::by_keyword(function, &inputs, &returned);
    if let Some(original) = source.strip_suffix(added.as_str())
        && python::defines(original, "run")
    {
        return Ok(RunSource { text: original.to_owned(), returns_numbers: true });
    }
    let refuse = |message: String, help: &str| {
        let problem = Problem::error(codes::RUN, message).help(help);
        Err(problem.at(&op.file, &op.reference.function.span, "this function"))
    };
    if order.contains(&function) {
        let message = format!("`{function}` is both the reference and one of its arguments");
        return refuse(message, "rename one of them, here and in the file");
    }
    let as_it_is = RunSource { text: source.to_owned(), returns_numbers: false };
    let name = &reference.name;
    if function == "run" {
        if !python::defines(source, "run") {
            let help = "write `def run(...)` at the beginning of a line";
            return refuse(format!("`{name}` defines no function `run`"), help);
        }
        if !op.scalars.is_empty() && python::parameters(source, "run").is_none_or(|found| found != order) {
            let help = "rename it, here and in the file; `export` then adds a `run` that calls it";
            let message = format!("`run` must take {} in this order, by position", order.join(", "));
            return refuse(message, help);
        }
        return Ok(as_it_is);
    }
    let run = python::run(function, &inputs);
    if source.ends_with(run.as_str()) {
        return Ok(as_it_is);
    }
    if python::defines(source, "run") {
        let help = "rename it there, or make it the reference";
        return refuse(format!("`{name}` also defines `run`, the function that a definition calls"), help);
    }
    Ok(RunSource { text: format!("{}{run}", source.trim_end_matches('\n').to_owned() + "\n"), ..as_it_is })
}

fn passed<'o>(op: &'o OpSpec, name: &str) -> Option<Passed<'o>> {
    if let Some(input) = op.inputs.iter().find(|input| input.tensor.name.as_str() == name) {
        return Some(tensor_passed(op, &input.tensor));
    }
    let scalar = op.scalars.iter().find(|scalar| scalar.name.as_str() == name)?;
    let dtype = default_dtype(scalar.default.value);
    Some(Passed { name: scalar.name.as_str(), dtype, number: true })
}

fn tensor_passed<'o>(op: &OpSpec, tensor: &'o Tensor) -> Passed<'o> {
    let dtype = match &tensor.dtype.value {
        TensorDtype::Fixed(dtype) => *dtype,
        TensorDtype::Variable(name) => {
            let variable = op.dtypes.iter().find(|variable| variable.name.value == *name);
            let first = variable.and_then(|variable| variable.dtypes.first()).copied();
            first.unwrap_or(default_dtype(ScalarValue::Float(0.0)))
        }
    };
    Passed { name: tensor.name.as_str(), dtype, number: false }
}
