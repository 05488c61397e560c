//! The messages between this program and its Python harness (`harness/`).
//!
//! Each job that this program sends and each event that Python sends back is a type here, one file a dialogue. The
//! dataclasses of `harness/protocol*.py` are generated from these types by `cargo xtask codegen`; the test
//! `generated::the_python_side_is_generated` compares them. `harness/wire.py` decodes strictly: an unknown or missing field
//! is an error that names it.
//!
//! Owns: the form of every message, its version. Never: starts a process, or acts on a message.

use std::collections::BTreeMap;

use kernel_plan::spec::op::{CaseTensor, ScalarValue, Values};
use kernel_plan::units::Dtype;
use serde::Serialize;

pub(crate) mod bench;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod schema;
pub(crate) mod trace;
pub(crate) mod verify;

/// The version of all dialogues. A harness with another one refuses the job.
pub(crate) const VERSION: u32 = 1;

/// The first message of a dialogue.
#[derive(Debug, Serialize)]
pub(crate) struct Opening<'a, J> {
    /// [`VERSION`], read before all else.
    pub protocol: u32,
    /// Every event carries this secret of the run.
    pub nonce: &'a str,
    /// The process's task.
    pub job: J,
}

impl<J: Serialize> Opening<'_, J> {
    /// The line that opens a dialogue of this version.
    pub(crate) fn line(nonce: &str, job: J) -> String {
        let opening = Opening { protocol: VERSION, nonce, job };
        line(&opening)
    }
}

/// A message as a line.
pub(crate) fn line(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}

/// Scalar arguments by name.
pub(crate) type Scalars = BTreeMap<String, ScalarValue>;

/// A Python file as it was read before a candidate ran; a process runs this text, not the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SourceText {
    /// The path of the file, for messages.
    pub file: String,
    /// The contents of the file.
    pub text: String,
}

/// A tensor of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TensorSpec {
    /// The argument.
    pub name: String,
    /// Elements per dimension, outermost first.
    pub shape: Vec<u64>,
    /// The element type.
    #[cfg_attr(test, schemars(with = "schema::DtypeName"))]
    pub dtype: Dtype,
    /// Whether `None` is passed for this input.
    pub omitted: bool,
    /// For an output: the place of the input that it overwrites.
    pub inplace: Option<usize>,
    /// For an input: the function of the reference file that computes it from the others.
    pub computed: Option<String>,
    /// For an input: whether it is a seed, which may be any number of 64 bits.
    pub seed: bool,
    /// For an input: whether no value is less than zero.
    pub non_negative: bool,
}

impl TensorSpec {
    /// The tensor of a case with these inputs.
    pub(crate) fn new(tensor: &CaseTensor, inputs: &[CaseTensor]) -> Self {
        let overwritten = tensor.inplace.as_ref();
        Self {
            name: tensor.name.to_string(),
            shape: tensor.shape.clone(),
            dtype: tensor.dtype,
            omitted: tensor.omitted,
            inplace: overwritten.and_then(|name| inputs.iter().position(|input| input.name == *name)),
            computed: tensor.computed.as_ref().map(ToString::to_string),
            seed: tensor.values == Values::Seed,
            non_negative: tensor.values == Values::NonNegative,
        }
    }
}

/// A line that carries the nonce of its run, without the nonce; `None` for any other line.
pub(crate) fn fields(line: &str, nonce: &str) -> Option<serde_json::Value> {
    let mut value: serde_json::Value = serde_json::from_str(line).ok()?;
    let carried = value.as_object_mut()?.remove("nonce")?;
    (carried == nonce).then_some(value)
}
