//! Runs what writes the sources that some units compile, before any unit is looked at.
//!
//! Owns: that the same command runs once for all variants. Never: keeps what it made in the cache: the units read it, and
//! their keys cover its content.

use kernel_plan::plan::CommandLine;

use super::label::Label;
use super::log::run;
use super::{CompileError, Job, Shop};

/// Prepares every job; the errors of each.
pub(super) fn prepare(shop: &Shop<'_>, jobs: &[Job]) -> Vec<Vec<CompileError>> {
    let mut done: Vec<&CommandLine> = Vec::new();
    let mut failures = Vec::new();
    for Job { plan, .. } in jobs {
        let mut failed = Vec::new();
        for command in &plan.prepare {
            if done.contains(&command) {
                continue;
            }
            let label = Label { variant: &plan.id, unit: "prepare", step: "prepare" };
            match run(shop, label, command) {
                Ok(_) => done.push(command),
                // The next variant that wants it runs it again, and says so under its own name.
                Err(error) => failed.push(error),
            }
        }
        failures.push(failed);
    }
    failures
}
