//! What a template says of itself, and what a person answers.
//!
//! Owns: the format of `template.toml`. Never: renders a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel_plan::spec::op::ScalarValue;
use kernel_plan::units::KernelName;
use serde::{Deserialize, Serialize};

use crate::scaffold::ScaffoldError;
use crate::scaffold::hole::Hole;
use crate::scaffold::host::framework::Framework;

/// The files of a template, or of what all share, by their path inside it.
pub(crate) type Sources = BTreeMap<String, Vec<u8>>;

/// What a template offers: `template.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The folder's name.
    pub name: String,
    /// One line on what it is for.
    pub description: String,
    /// The operations that it defines.
    pub ops: Vec<String>,
    /// The backends that it has code for.
    pub backends: Vec<String>,
    /// Paths that are written for one backend only.
    #[serde(default)]
    pub(super) when: Vec<When>,
    /// Files of `_shared` that the project gets a copy of.
    #[serde(default)]
    pub(super) shared: Vec<Shared>,
    /// What may be set or filled in.
    #[serde(default, rename = "hole")]
    pub holes: Vec<Hole>,
    /// Calls of the operation in another form than its own, for `new --from`.
    #[serde(default)]
    pub serves: Vec<Serves>,
    /// Whether `new --from` looks at it; not at one that computes what another does.
    #[serde(default = "looked_at")]
    pub traced: bool,
    /// What integer inputs count.
    #[serde(default)]
    pub indexes: BTreeMap<String, Indexes>,
    #[serde(skip)]
    pub(super) files: Arc<Sources>,
    #[serde(skip)]
    pub(super) common: Arc<Sources>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    pub(super) backend: String,
    pub(super) paths: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shared {
    /// The path below `_shared`.
    pub(super) from: String,
    /// The path in the project.
    pub(super) to: String,
}

/// What a person answered.
#[derive(Debug, Clone)]
pub struct Answers {
    /// The user or organisation on the hub.
    pub owner: String,
    /// The kernel's name.
    pub name: KernelName,
    /// The licence, as an SPDX identifier.
    pub license: String,
    /// The backends, in the template's order.
    pub backends: Vec<String>,
    /// What the binding is for.
    pub framework: Framework,
    /// For the card.
    pub year: i64,
    /// What is set: values and choices, by the hole's name.
    pub set: BTreeMap<String, String>,
}

impl Answers {
    /// The licence of a kernel for which none was named.
    pub const LICENSE: &'static str = "Apache-2.0";
}

/// One `[[serves]]`: how a call of the operation is also written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serves {
    /// How it differs from the operation's own call, in words.
    #[serde(rename = "as")]
    pub as_words: String,
    /// What such a call is given: Python expressions over the operation's inputs, axes, scalars and `torch`.
    pub arguments: Vec<String>,
    /// What it returns: expressions over the outputs, too; the outputs themselves when absent.
    pub results: Option<Vec<String>>,
    /// Scalars that have one value in this form.
    #[serde(default)]
    pub scalars: BTreeMap<String, toml::Value>,
    /// Optional inputs that this form has not; those that no argument names when absent.
    pub without: Option<Vec<String>>,
    /// Inputs that such a call does not have, and what the kernel is given for each: Python expressions over the axes and
    /// `torch`.
    #[serde(default)]
    pub given: BTreeMap<String, String>,
    /// Axes whose lengths must be multiples of a number, so that an argument can be written.
    #[serde(default)]
    pub multiples: BTreeMap<String, u64>,
    /// What of such a call the kernel leaves to the caller, in words.
    pub remains: Option<String>,
}

/// `[indexes.INPUT]`: what the values of an integer input mean.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Indexes {
    /// They are places along this axis.
    pub axis: String,
    /// A scalar; its value is no place.
    pub ignored: Option<String>,
}

impl Template {
    /// The files of the template's folder.
    pub(crate) fn files(&self) -> &Sources {
        &self.files
    }

    /// A defect of the template, in words.
    pub(crate) fn defect(&self, what: impl Into<String>) -> ScaffoldError {
        ScaffoldError::Claim { template: self.name.clone(), what: what.into() }
    }
}

fn looked_at() -> bool {
    true
}

/// A scalar in a template's settings.
pub(in crate::scaffold) fn scalar_value(value: &toml::Value) -> Option<ScalarValue> {
    match value {
        toml::Value::Float(value) => Some(ScalarValue::Float(*value)),
        toml::Value::Integer(value) => Some(ScalarValue::Int(*value)),
        toml::Value::Boolean(value) => Some(ScalarValue::Bool(*value)),
        _ => None,
    }
}
