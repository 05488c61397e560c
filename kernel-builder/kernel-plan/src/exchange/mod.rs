//! Definitions and workloads of flashinfer-bench, to op.toml and from it.
//!
//! Owns: both directions, and telling what was assumed, what was left out, and what has no counterpart.
//! Never: touches a file, and never runs or understands the Python of a reference.
//!
//! The other format is that of flashinfer-bench 0.1.2 (`flashinfer_bench/data`). docs/reference/flashinfer-bench.md has the mapping.

use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, has_errors};
use crate::spec::{OpSpec, parse_op};

mod bounds;
pub mod codes;
mod definition;
mod export;
mod json;
mod op_text;
mod python;
mod run_source;
mod workload;

pub use export::{Choice, Exported, Published, export};
pub use op_text::Imported;

/// Makes op.toml and reference.py of a definition, and of workloads where there are some: a JSON list, JSON lines, or
/// lines of traces, whose workloads are taken.
///
/// The files are there unless a problem is an error. Notes say what was assumed, warnings what was left out.
pub fn import(
    definition: &Arc<SourceFile>,
    workloads: Option<&Arc<SourceFile>>,
) -> (Option<Imported>, Vec<Problem>) {
    let (read, mut problems) = definition::read(definition);
    let Some(read) = read else { return (None, problems) };
    let mut calls = Vec::new();
    if let Some(file) = workloads {
        let (found, told) = workload::read(file, &read);
        problems.extend(told);
        calls = found;
    }
    if has_errors(&problems) {
        return (None, problems);
    }
    let (imported, told) = op_text::write(definition, &read, &calls);
    problems.extend(told);
    // A file that `check` would refuse is not handed out, whatever the reason.
    let (_, refused) = parse_op(SourceFile::new("op.toml", imported.op_toml.clone()));
    if has_errors(&refused) {
        problems.extend(refused);
        return (None, problems);
    }
    (Some(imported), problems)
}

/// The order in which `run` takes its arguments: that of `[flashinfer]`, else inputs, then scalars.
fn argument_order(op: &OpSpec) -> Vec<&str> {
    let chosen = op.flashinfer.as_ref().map(|section| section.arguments.as_slice()).unwrap_or_default();
    if !chosen.is_empty() {
        return chosen.iter().map(|name| name.as_str()).collect();
    }
    let inputs = op.inputs.iter().map(|input| input.tensor.name.as_str());
    inputs.chain(op.scalars.iter().map(|scalar| scalar.name.as_str())).collect()
}
