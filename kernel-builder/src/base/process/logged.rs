//! Log entries for child processes.
//!
//! Owns: these lines. Never: shows a value of the environment.

use std::time::Duration;

use kernel_plan::plan::CommandLine;

use super::super::causes::chain;
use super::super::{env, report, shell};
use super::child::{Finished, ProcessError, Start};

/// A child is about to be started.
pub(super) fn start(line: &CommandLine, start: Start) {
    tracing::debug!(target: "process", "{} {}", word(start), about(line));
}

/// A child has ended, or could not be started.
pub(super) fn end(line: &CommandLine, done: &Result<Finished, ProcessError>) {
    match done {
        Ok(done) => tracing::info!(
            target: "process",
            "{} after {}{}: {}",
            done.ending,
            report::duration(done.wall),
            match done.peak_resident {
                0 => String::new(),
                peak => format!(", peak memory {}", report::bytes(peak)),
            },
            about(line),
        ),
        Err(error) => tracing::info!(target: "process", "{}: {}", chain(error), about(line)),
    }
}

/// A child that is asked several things is about to be started.
pub(super) fn dialogue(line: &CommandLine, start: Start) {
    tracing::info!(target: "process", "{} a dialogue with {}", word(start), about(line));
}

/// The dialogue with a child is over.
pub(super) fn dialogue_over(id: u32, took: Duration) {
    tracing::info!(target: "process", "dialogue with process {id} over after {}", report::duration(took));
}

fn word(start: Start) -> &'static str {
    match start {
        Start::Exec => "starting",
        Start::Fork => "forking, or starting,",
    }
}

fn about(line: &CommandLine) -> String {
    let dir = line.cwd.clone().unwrap_or_else(env::current_dir);
    format!("{} (in {})", shell::shown(line), dir.display())
}
