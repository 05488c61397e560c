//! `lint`: whether a task can tell a kernel from a shortcut, before anything is spent on it.

use clap::{Args as ClapArgs, ValueEnum};
use serde_json::json;

use crate::base::session::Session;
use crate::exit::{self, Failure};
use crate::pipeline::project::task::{self, Task};
use crate::toolchain::Extras;
use crate::toolchain::python::{self, Torch};
use crate::verify::Options;
use crate::verify::lint::{self, Lint};

use super::arguments::TaskDir;

/// Check whether a kernel that does no work would pass the task
///
/// The reference runs in float64 on several sets of inputs. Zeros, a constant, an earlier result, a copy of an input
/// and a repeated row are compared with the tolerance for kernels. Each input and scalar is changed to see whether it
/// matters. The lengths in the workloads are checked too.
///
/// Only op.toml and its reference are needed. `verify` runs these checks once per task, and every measurement lists
/// the findings.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright lint my-norm
  kernelwright lint my-norm/backward.toml --deny warnings")]
pub struct Args {
    #[command(flatten)]
    project: TaskDir,
    /// Also fail on these findings
    #[arg(long, value_enum, value_name = "WHAT")]
    deny: Option<Deny>,
}

/// Findings that fail the command on request, beside errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Deny {
    /// All findings
    Warnings,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let Task { dir, op, torch } = task::load(&args.project.dir, session)?;
    let extras = Extras { client: false, tvm_ffi: false };
    let python = python::runtime(session, Torch::Preferably(&torch), extras)?;
    let lint = lint::lint(&op, &dir, &python, Options::standard().threads, session)?;
    session.report.result("lint", &json!(lint), &human(&lint));
    let denied = args.deny == Some(Deny::Warnings) && !lint.findings.is_empty();
    if denied { Err(Failure::already_reported(exit::SPEC)) } else { Ok(()) }
}

fn human(lint: &Lint) -> String {
    let mut text = String::new();
    for finding in &lint.findings {
        text += &format!("warning: {}: {}\n  help: {}\n", finding.code, finding.summary, finding.help);
    }
    if let Some((case, lengths)) = lint.cut.first_key_value() {
        let count = lint.cut.len();
        text += &format!("note: {count} cases used shorter lengths, such as `{case}` with {lengths}\n");
    }
    for relation in &lint.relations {
        text += &format!("holds: {relation}\n");
    }
    let count = match lint.findings.len() {
        0 => "no shortcut passes".to_owned(),
        1 => "1 warning".to_owned(),
        count => format!("{count} warnings"),
    };
    text + &format!("{count}; {} cases, {} without an element\n", lint.cases, lint.empty.len())
}
