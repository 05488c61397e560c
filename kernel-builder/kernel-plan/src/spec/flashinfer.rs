//! `[flashinfer]` of op.toml: what a definition of flashinfer-bench says and the rest of op.toml has no place for.
//!
//! Owns: its keys, and that the names in it exist. `import` writes it, `export` reads it.
//! Never: changes what the operation means; it can be taken away.

use serde::Serialize;

use crate::units::{PythonName, WorkloadName};

use super::Spanned;
use super::read::{Node, Table};

/// The whole section; everything in it is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Flashinfer {
    /// The definition's name, where it is not the operation's.
    pub name: Option<String>,
    /// Its category, where it is not the operation's name.
    pub op_type: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Python expressions over axes; those that `[axes]` can say are there.
    pub constraints: Vec<String>,
    /// Inputs and scalars in the order in which `run` takes them, where the scalars are not last.
    pub arguments: Vec<Spanned<PythonName>>,
    /// Outputs that `run` returns as Python numbers.
    pub numbers: Vec<Spanned<PythonName>>,
    /// Descriptions of axes.
    pub axes: Vec<(Spanned<String>, String)>,
    /// Descriptions of inputs, scalars and outputs.
    pub tensors: Vec<(Spanned<String>, String)>,
    /// Dtypes of scalars, other than `float32`, `int64` and `bool`; names of flashinfer-bench.
    pub scalars: Vec<(Spanned<String>, String)>,
    /// Identifiers of workloads, where they are not the workloads' names.
    pub uuids: Vec<(Spanned<String>, String)>,
    /// For each workload, the inputs that flashinfer-bench reads from files.
    pub stored: Vec<(Spanned<String>, Vec<StoredInput>)>,
}

/// A tensor of a safetensors file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredInput {
    /// The input.
    pub input: Spanned<String>,
    /// From the root of the data set.
    pub path: String,
    /// The tensor's name in the file.
    pub key: String,
}

impl Flashinfer {
    /// Whether a constraint names an axis.
    pub fn constrains(&self, axis: &PythonName) -> bool {
        let words = |text: &str| {
            text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                .any(|word| word == axis.as_str())
        };
        self.constraints.iter().any(|text| words(text))
    }

    /// The description of an axis.
    pub fn axis(&self, name: &PythonName) -> Option<&str> {
        find(&self.axes, name.as_str())
    }

    /// The description of an input, scalar or output.
    pub fn tensor(&self, name: &PythonName) -> Option<&str> {
        find(&self.tensors, name.as_str())
    }

    /// The dtype of a scalar.
    pub fn scalar(&self, name: &PythonName) -> Option<&str> {
        find(&self.scalars, name.as_str())
    }

    /// The identifier of a workload.
    pub fn uuid(&self, name: &WorkloadName) -> Option<&str> {
        find(&self.uuids, name.as_str())
    }

    /// The inputs of a workload that come from files.
    pub fn stored(&self, name: &WorkloadName) -> &[StoredInput] {
        let found = self.stored.iter().find(|(workload, _)| workload.value == name.as_str());
        found.map(|(_, inputs)| inputs.as_slice()).unwrap_or_default()
    }
}

fn find<'l>(list: &'l [(Spanned<String>, String)], name: &str) -> Option<&'l str> {
    list.iter().find(|(key, _)| key.value == name).map(|(_, text)| text.as_str())
}

/// Reads the section.
pub(crate) fn flashinfer(mut table: Table<'_>) -> Flashinfer {
    let plain = |list: Vec<Spanned<String>>| list.into_iter().map(|text| text.value).collect();
    let read = Flashinfer {
        name: table.get("name").map(|text| text.value),
        op_type: table.get("op-type").map(|text| text.value),
        tags: plain(table.list("tags")),
        constraints: plain(table.list("constraints")),
        arguments: table.list("arguments"),
        numbers: table.list("numbers"),
        axes: texts(&mut table, "axes"),
        tensors: texts(&mut table, "tensors"),
        scalars: texts(&mut table, "scalars"),
        uuids: texts(&mut table, "uuids"),
        stored: table.table("stored").map(|table| stored(&table)).unwrap_or_default(),
    };
    table.finish();
    read
}

fn texts(table: &mut Table<'_>, key: &'static str) -> Vec<(Spanned<String>, String)> {
    let entries = table.table(key).map(|table| table.entries()).unwrap_or_default();
    entries.into_iter().filter_map(|(key, node)| Some((key, node.read::<String>()?.value))).collect()
}

fn stored(table: &Table<'_>) -> Vec<(Spanned<String>, Vec<StoredInput>)> {
    let entries = table.entries().into_iter();
    entries
        .filter_map(|(workload, node)| {
            let inputs =
                node.table()?.entries().into_iter().filter_map(|(key, node)| stored_input(key, &node));
            Some((workload, inputs.collect()))
        })
        .collect()
}

fn stored_input(input: Spanned<String>, node: &Node<'_>) -> Option<StoredInput> {
    let mut table = node.table()?;
    let path = table.require::<String>("path", "path = \"q.safetensors\"");
    let key = table.require::<String>("key", "key = \"q\"");
    table.finish();
    Some(StoredInput { input, path: path?.value, key: key?.value })
}
