//! Writes a plan as the files of a project: device code, code for the processor, op.toml.
//!
//! Owns: which files there are. Never: writes to a disk; decides what is fused.

mod contract;
mod cpu;
mod cuda;
mod forward;
mod project;
mod table;
mod whole;
mod words;

use super::plan::Plan;
use super::program::Program;
use super::refusal::Refusal;

pub use project::{Part, Project};
pub use whole::{Whole, emit_whole, steps};

/// The files of a translation.
#[derive(Debug, Clone)]
pub struct Emitted {
    /// op.toml.
    pub op: String,
    /// Device code.
    pub cuda: String,
    /// The source for the processor, with the entry.
    pub cpu: String,
    /// Its arithmetic.
    pub body: String,
    /// The plan as a table.
    pub plan: String,
}

/// Writes a plan.
///
/// # Errors
/// What op.toml cannot say.
pub fn emit(program: &Program, plan: &Plan, project: &Project) -> Result<Emitted, Refusal> {
    let cuda = cuda::source(program, plan, project);
    Ok(Emitted {
        op: contract::op(program, plan, project, &cuda.launches)?,
        cpu: cpu::source(program, project),
        body: cpu::body(program, plan, project),
        plan: table::table(program, plan, project),
        cuda: cuda.text,
    })
}
