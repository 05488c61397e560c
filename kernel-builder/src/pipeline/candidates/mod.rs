//! Candidates that agents hand in: the judge as tools, and what is kept of every candidate.
//!
//! Owns: where agents and the stages before meet. Never: proposes a candidate.

mod brief;
pub(crate) mod cell;
mod desk;
#[cfg(test)]
mod desk_tests;
pub(crate) mod handoff;
mod judge;
mod on_machine;
pub(crate) mod past;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod session;
mod settings;
pub(crate) mod shelf;
mod store;
mod submitted;
mod task_text;
mod trying;

use std::path::Path;
use std::time::Duration;

use miette::Diagnostic;
use thiserror::Error;

use crate::agent::kernel::KernelRefusal;
use crate::base::secrets;
use crate::base::session::Session;
use crate::compile::nvrtc::Tool;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::project::device::{self, DeviceProject};
use crate::pipeline::project::kernel;

pub(crate) use desk::Desk;
use on_machine::MachineJudge;

/// The project's own kernel is no candidate, so nothing can be made of it.
#[derive(Debug, Error, Diagnostic)]
#[error("the kernel of `{dir}` cannot be a candidate: {refused}")]
#[diagnostic(
    code(agent::no_seed),
    help(
        "a candidate is the device code in the folder of `[launch].source`: regular UTF-8 files, at most 64 files \
         and 256 KiB in total"
    )
)]
struct NoSeed {
    dir: String,
    refused: KernelRefusal,
}

impl StageError for NoSeed {
    fn exit(&self) -> u8 {
        exit::AGENT
    }
}

/// Opens a desk for the project in a folder, and does something at it.
///
/// # Errors
/// There is no such project, or its own kernel is no candidate.
pub(crate) fn at_desk<T>(
    dir: &Path,
    tool: Tool,
    patience: Duration,
    session: &Session,
    work: impl FnOnce(&mut Desk<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    secrets::hide_environment();
    let project = device::read(dir, session)?;
    let mut desk = open(&project, tool, patience, session)?;
    work(&mut desk)
}

fn open<'a>(
    project: &'a DeviceProject,
    tool: Tool,
    patience: Duration,
    session: &'a Session,
) -> Result<Desk<'a>, Failure> {
    let no_seed = |refused| NoSeed { dir: project.dir.display().to_string(), refused };
    let Some(origin) = kernel::origin(project)? else {
        return Err(no_seed(KernelRefusal::op_toml("it has no [launch]")).into());
    };
    let judge = Box::new(MachineJudge::new(project, tool, patience, session)?);
    Ok(Desk::open(project, origin, judge, session)?.map_err(no_seed)?)
}
