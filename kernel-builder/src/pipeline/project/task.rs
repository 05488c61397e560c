//! A task: an operation that is looked at alone, without a kernel.

use std::path::{Path, PathBuf};

use kernel_plan::diagnostic::{Problem, SourceFile};
use kernel_plan::spec::{self, OpSpec};

use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::{self, Failure};
use crate::pipeline::project::{self, OpFile, ProjectError, Reading, TORCH};

/// An operation, and what its reference is run with.
pub(crate) struct Task {
    /// The folder.
    pub(crate) dir: PathBuf,
    /// What it means.
    pub(crate) op: OpSpec,
    /// The torch release.
    pub(crate) torch: String,
}

/// Reads an op file, or the op.toml of a folder with or without build.toml. Problems are told; any error among them fails.
///
/// # Errors
/// There is none, or it has errors.
pub(crate) fn load(dir: &Path, session: &Session) -> Result<Task, Failure> {
    let file = OpFile::at(dir);
    if file.is_beside() {
        let op = file.read("lint", session)?;
        return Ok(Task { dir: env::absolute(&file.folder), op, torch: TORCH.to_owned() });
    }
    let Reading { project, problems, missing } = project::read(&file.folder)?;
    project::tell(&problems, session)?;
    if let Some(project) = project {
        let torch = project::torch_of(&project)?;
        return match project.op {
            Some(op) => Ok(Task { dir: project.dir, op, torch }),
            None => Err(ProjectError::NoOp { dir: project.dir, step: "lint" }.into()),
        };
    }
    // Without build.toml the task is as good.
    if missing.is_none() {
        return Err(Failure::already_reported(exit::SPEC));
    }
    let dir = env::absolute(&file.folder);
    let path = dir.join("op.toml");
    if !files::exists(&path) {
        return Err(ProjectError::NoOp { dir, step: "lint" }.into());
    }
    let text = project::specification(&path)?;
    // Its problems were told with those of the project.
    let (op, _told): (_, Vec<Problem>) = spec::parse_op(SourceFile::new("op.toml", text));
    op.map(|op| Task { dir, op, torch: TORCH.to_owned() }).ok_or(Failure::already_reported(exit::SPEC))
}
