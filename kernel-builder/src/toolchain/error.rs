//! What can go wrong with a toolchain, and what to do about it.
//!
//! Owns: the messages and the exit code of this stage.

use miette::Diagnostic;
use thiserror::Error;

use crate::base::files::FileError;
use crate::base::process::ProcessError;
use crate::exit::{self, StageError};

/// Why there is no toolchain.
#[derive(Debug, Error, Diagnostic)]
pub enum ToolchainError {
    /// The user pressed ctrl-C.
    #[error("interrupted")]
    #[diagnostic(code(toolchain::interrupted))]
    Interrupted,
    /// A file of the cache.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// A program that could not be started.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(#[from] ProcessError),
}

impl StageError for ToolchainError {
    fn exit(&self) -> u8 {
        match self {
            Self::Interrupted | Self::Process(ProcessError::Interrupted) => exit::INTERRUPTED,
            _ => exit::TOOLCHAIN,
        }
    }
}
