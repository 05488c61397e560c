//! The job of `harness/trace.py`: a person's file, and the operations of the templates that it is compared with.
//!
//! Owns: the form of the job. Never: the report; `scaffold/report.rs` has it.

use std::collections::BTreeMap;

use kernel_plan::spec::op::ScalarValue;
use serde::Serialize;

use super::Scalars;

/// Compares functions of a file with the calls that templates serve.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TraceJob {
    /// The path of the person's file.
    pub file: String,
    /// The functions and classes, one report each; the only public one for `None`.
    pub names: Vec<Option<String>>,
    pub threads: usize,
    /// Whether functions that no template is near to are exported for their translation.
    pub translates: bool,
    pub templates: Vec<TemplateJob>,
}

/// A template with its operation.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TemplateJob {
    pub name: String,
    /// The path of the template's reference file.
    pub reference: String,
    /// The reference function.
    pub function: String,
    pub op: Operation,
    /// Every form of a call.
    pub forms: Vec<Form>,
}

/// What op.toml says of calls.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Operation {
    pub axes: Vec<Axis>,
    pub inputs: Vec<Input>,
    pub scalars: Vec<ScalarArgument>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// For each output that overwrites an input, the input.
    pub overwrites: BTreeMap<String, String>,
    /// Inputs that the result of the kernel has a gradient of.
    pub gradients: Vec<String>,
    /// Conditions on axes and scalars, as op.toml has them.
    pub constraints: Vec<String>,
}

/// An axis and its lengths.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Axis {
    pub name: String,
    /// The one length of a constant axis.
    pub fixed: Option<u64>,
    pub multiple_of: u64,
    pub min: Option<u64>,
}

/// An input of an operation.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    pub name: String,
    /// The axes.
    pub shape: Vec<String>,
    pub kind: Kind,
    /// The axis along which its values are places.
    pub counts: Option<String>,
    /// The scalar whose value is no place.
    pub ignored: Option<String>,
}

/// The kind of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Float,
    Int,
    Bool,
}

/// A scalar argument of an operation.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ScalarArgument {
    pub name: String,
    pub kind: Kind,
    #[cfg_attr(test, schemars(with = "super::schema::Scalar"))]
    pub default: ScalarValue,
}

/// How a call of an operation is written.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Form {
    /// The arguments: Python expressions over the operation's inputs, axes, scalars and `torch`.
    pub arguments: Vec<String>,
    /// The results: expressions over the outputs, too; the outputs themselves if absent.
    pub results: Option<Vec<String>>,
    /// Scalars that have one value in this form.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, super::schema::Scalar>"))]
    pub scalars: Scalars,
    /// Optional inputs that this form does not have.
    pub without: Vec<String>,
    /// Values of inputs that such a call does not have: expressions over the axes and `torch`.
    pub given: BTreeMap<String, String>,
    /// Axes whose lengths must be multiples of a number.
    pub multiples: BTreeMap<String, u64>,
}
