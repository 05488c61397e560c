//! How a child is started, what it may use, and what came of it.
//!
//! Owns: the types that say so. Never: starts one.

use std::path::PathBuf;
use std::time::Duration;

use miette::Diagnostic;
use thiserror::Error;

use super::ending::Ending;

/// How a child comes into being.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// As a program of its own.
    Exec,
    /// From a process of the same Python that has imported torch. The command is an isolated Python with torch (`-I` comes
    /// first) and a script. If there is no such process, as [`Self::Exec`].
    Fork,
}

/// What a child may use before it is killed.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Wall-clock time.
    pub wall: Duration,
    /// Bytes of standard output and standard error together.
    pub output: usize,
    /// Bytes of memory resident in the child itself (its own children are not counted: what a process shares with those
    /// that it forked would count for each of them); unlimited when absent.
    pub resident: Option<u64>,
}

impl Limits {
    /// A deadline, with 64 MiB of output and no cap on memory.
    pub fn wall(wall: Duration) -> Self {
        Self { wall, output: 64 << 20, resident: None }
    }
}

/// A child that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// What it wrote to standard output; empty when lines were handed to a callback.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// Wall-clock time from start to end.
    pub wall: Duration,
    /// Largest resident memory seen, bytes (sampled): in the child itself, and of a gauged one with all that it started.
    pub peak_resident: u64,
}

impl Finished {
    /// Standard output as text.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// A child that could not be started, or that the user stopped.
#[derive(Debug, Error, Diagnostic)]
pub enum ProcessError {
    /// The executable is not there.
    #[error("program not found: `{}`", program.display())]
    #[diagnostic(
        code(base::program_missing),
        help("install it, or put it on PATH; run `kernelwright doctor` to see what is missing")
    )]
    Missing {
        /// What was to be started.
        program: PathBuf,
    },
    /// The operating system refused to start it.
    #[error("failed to start `{}`", program.display())]
    #[diagnostic(code(base::program_start))]
    Start {
        /// What was to be started.
        program: PathBuf,
        /// What the operating system said.
        #[source]
        cause: std::io::Error,
    },
    /// The user pressed ctrl-C; the child and its group are gone.
    #[error("interrupted")]
    #[diagnostic(code(base::interrupted))]
    Interrupted,
}
