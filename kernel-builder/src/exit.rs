//! Exit codes: one a stage, so that a script can tell what went wrong.
//!
//! Owns: the numbers (documented in docs/reference/exit-codes.md) and the meeting of every stage's error in one type.
//! Never: prints.

use kernel_plan::diagnostic::{Problem, Severity};
use miette::Diagnostic;

use crate::base::files::FileError;
use crate::base::interrupt::Interrupted;
use crate::base::log::LogError;
use crate::base::process::ProcessError;

/// Success.
pub const SUCCESS: u8 = 0;
/// A file could not be read or written, a program could not be started, or a defect of this program.
pub const INTERNAL: u8 = 1;
/// Wrong arguments.
pub const USAGE: u8 = 2;
/// build.toml or op.toml is wrong.
pub const SPEC: u8 = 10;
/// No variant fits, or none can be planned.
pub const PLAN: u8 = 11;
/// The project could not be rendered.
pub const SCAFFOLD: u8 = 12;
/// A compiler, header set or Python is missing or could not be fetched.
pub const TOOLCHAIN: u8 = 13;
/// The compiler or linker failed.
pub const COMPILE: u8 = 14;
/// The kernel was refused.
pub const VERIFY: u8 = 15;
/// The kernel could not be measured.
pub const BENCH: u8 = 16;
/// The package could not be made.
pub const PACKAGE: u8 = 17;
/// The package could not be published.
pub const PUBLISH: u8 = 18;
/// An agent has nothing to offer, or what it left behind cannot be used.
pub const AGENT: u8 = 19;
/// The record could not be kept.
pub const ARCHIVE: u8 = 20;
/// The published package does not load, or its example fails.
pub const LOAD: u8 = 21;
/// A hub could not be asked, or has no such kernel.
pub const HUB: u8 = 22;
/// Ctrl-C, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// What a stage's error must say beside its text: the exit code it owns.
pub trait StageError: Diagnostic + Send + Sync + 'static {
    /// The exit code for this error.
    fn exit(&self) -> u8;
}

impl StageError for FileError {
    fn exit(&self) -> u8 {
        // Ctrl-C while a pipe or another process was waited for.
        if self.cause.kind() == std::io::ErrorKind::Interrupted { INTERRUPTED } else { INTERNAL }
    }
}

impl StageError for LogError {
    fn exit(&self) -> u8 {
        match self {
            Self::Filter { .. } => USAGE,
            Self::File(error) => error.exit(),
        }
    }
}

impl StageError for ProcessError {
    fn exit(&self) -> u8 {
        if matches!(self, Self::Interrupted) { INTERRUPTED } else { INTERNAL }
    }
}

/// The end of a command that failed.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: u8,
    /// What is said; several when a file has several problems. Empty when all was said already.
    pub reports: Vec<miette::Report>,
}

impl Failure {
    /// A failure whose reasons have been told already.
    pub fn already_reported(exit: u8) -> Self {
        Self { exit, reports: Vec::new() }
    }

    /// Fails for the reasons of another failure as well, with the higher exit code.
    pub fn join(&mut self, other: Self) {
        self.exit = self.exit.max(other.exit);
        self.reports.extend(other.reports);
    }

    /// A failure whose reasons are in files.
    pub fn from_problems(exit: u8, problems: impl IntoIterator<Item = Problem>) -> Self {
        Self { exit, reports: problems.into_iter().map(miette::Report::new).collect() }
    }

    /// Fails with the errors among `problems`, which make a specification unusable; the rest has been told.
    pub fn check_errors(problems: &[Problem]) -> Result<(), Self> {
        let errors: Vec<_> =
            problems.iter().filter(|problem| problem.severity == Severity::Error).cloned().collect();
        if errors.is_empty() { Ok(()) } else { Err(Self::from_problems(SPEC, errors)) }
    }
}

impl<E: StageError> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { exit: error.exit(), reports: vec![miette::Report::new(error)] }
    }
}

impl From<Interrupted> for Failure {
    fn from(_: Interrupted) -> Self {
        ProcessError::Interrupted.into()
    }
}
