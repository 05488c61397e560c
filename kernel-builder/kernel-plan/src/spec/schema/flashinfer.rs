//! The shape of `[flashinfer]` of op.toml.
//!
//! Owns: its keys and their descriptions.
//! Never: is filled with values; `spec::flashinfer` has the types for those.
#![expect(dead_code, reason = "only the shape of these types is used: the derive makes the schema of it")]

use std::collections::BTreeMap;

use schemars::JsonSchema;

use crate::units::{PythonName, WorkloadName};

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Flashinfer {
    /// The definition's name, where it is not the operation's.
    name: Option<String>,
    /// Its category, where it is not the operation's name.
    op_type: Option<String>,
    /// Its tags.
    tags: Option<Vec<String>>,
    /// Python expressions over axes, beyond those that [axes] can say; kept as text.
    constraints: Option<Vec<String>>,
    /// All inputs and scalars in the order in which `run` takes them, where the scalars are not last.
    arguments: Option<Vec<PythonName>>,
    /// Outputs that `run` returns as Python numbers.
    numbers: Option<Vec<PythonName>>,
    /// Descriptions of axes.
    axes: Option<BTreeMap<PythonName, String>>,
    /// Descriptions of inputs, scalars and outputs.
    tensors: Option<BTreeMap<PythonName, String>>,
    /// Dtypes of scalars, other than float32, int64 and bool.
    scalars: Option<BTreeMap<PythonName, String>>,
    /// Identifiers of workloads, where they are not the workloads' names.
    uuids: Option<BTreeMap<WorkloadName, String>>,
    /// For each workload, the inputs that flashinfer-bench reads from files.
    stored: Option<BTreeMap<WorkloadName, BTreeMap<PythonName, StoredInput>>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct StoredInput {
    /// The safetensors file, from the root of the data set.
    path: String,
    /// The tensor's name in the file.
    key: String,
}
