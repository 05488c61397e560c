//! Runs one compiler or linker and keeps what it said.
//!
//! Owns: the logs in `.kernelwright/logs`.
//! Never: decides what to run.

use std::path::PathBuf;
use std::time::Duration;

use kernel_plan::plan::CommandLine;

use super::compiler_message;
use super::label::Label;
use super::shell_line::shell_line;
use super::{CompileError, Shop};
use crate::base::files::{self, FileError};

/// What a command printed and how long it took.
pub(super) struct Log {
    /// Standard output, then standard error.
    pub(super) text: String,
    /// Wall-clock time.
    pub(super) took: Duration,
}

/// Runs a compiler or linker in the project's folder, keeps its log, and reads its complaint when it fails.
///
/// The output is removed first: a command that dies half-way must not leave an old object in its place.
pub(super) fn run_logged(
    shop: &Shop<'_>,
    label: Label<'_>,
    command: &CommandLine,
    output: &str,
) -> Result<Log, CompileError> {
    let output = shop.project.join(output);
    files::remove_file(&output)?;
    if let Some(folder) = output.parent() {
        files::create_dirs(folder)?;
    }
    let ran = run(shop, label, command);
    if ran.is_err() {
        // Stopped by the user, perhaps: what was written so far is no object either.
        files::remove_file(&output)?;
    }
    ran
}

/// Runs a command in the project's folder, keeps its log, and reads its complaint when it fails.
pub(super) fn run(shop: &Shop<'_>, label: Label<'_>, command: &CommandLine) -> Result<Log, CompileError> {
    let Label { variant, unit, .. } = label;
    let project = shop.project;
    let finished = shop.slots.run(label, &command.clone().cwd(project))?;
    let text = format!("{}{}", finished.stdout_text(), finished.stderr_text());
    let log = keep(shop, label, command, &text)?;
    if finished.ending.success() {
        return Ok(Log { text, took: finished.wall });
    }
    Err(Box::new(compiler_message::read(unit, variant, &text, finished.ending, &log, project)).into())
}

/// Keeps what a command said, now or when it was run for what is taken from the cache; where.
pub(super) fn keep(
    shop: &Shop<'_>,
    label: Label<'_>,
    command: &CommandLine,
    text: &str,
) -> Result<PathBuf, FileError> {
    let Label { variant, unit, .. } = label;
    let log = shop.project.join(format!(".kernelwright/logs/{variant}/{}.log", unit.replace('/', "__")));
    files::write_if_changed(&log, format!("{}\n{text}", shell_line(command)))?;
    Ok(log)
}
