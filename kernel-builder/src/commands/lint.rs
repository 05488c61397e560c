//! `lint`: whether a task can tell a kernel from a shortcut, before anything is spent on it.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use kernel_plan::diagnostic::{Problem, SourceFile};
use kernel_plan::spec::{self, OpSpec};
use serde_json::json;

use crate::base::env;
use crate::base::files;
use crate::base::session::Session;
use crate::exit::{self, Failure};
use crate::pipeline::project::{self, OpFile, ProjectError, Reading, TORCH};
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
    /// Also fail on these
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
    let (dir, op, torch) = task(args, session)?;
    let extras = Extras { client: false, tvm_ffi: false };
    let python = python::runtime(session, Torch::Preferably(&torch), extras)?;
    let lint = lint::lint(&op, &dir, &python, Options::standard().threads, session)?;
    session.report.result("lint", &json!(lint), &human(&lint));
    let denied = args.deny == Some(Deny::Warnings) && !lint.findings.is_empty();
    if denied { Err(Failure::told(exit::SPEC)) } else { Ok(()) }
}

/// The folder, its op.toml, and the torch to run the reference with.
fn task(args: &Args, session: &Session) -> Result<(PathBuf, OpSpec, String), Failure> {
    let file = OpFile::of(&args.project.dir);
    if file.is_beside() {
        let op = file.read("lint", session)?;
        return Ok((env::absolute(&file.folder), op, TORCH.to_owned()));
    }
    let Reading { project, problems, missing } = project::read(&file.folder)?;
    project::tell(&problems, session)?;
    if let Some(project) = project {
        let torch = project::torch_of(&project)?;
        return match project.op {
            Some(op) => Ok((project.dir, op, torch)),
            None => Err(ProjectError::NoOp { dir: project.dir, step: "lint" }.into()),
        };
    }
    // Without build.toml the task is as good.
    if missing.is_none() {
        return Err(Failure::told(exit::SPEC));
    }
    let dir = env::absolute(&file.folder);
    let path = dir.join("op.toml");
    if !files::exists(&path) {
        return Err(ProjectError::NoOp { dir, step: "lint" }.into());
    }
    let text = project::specification(&path)?;
    // Its problems were told with those of the project.
    let (op, _told): (_, Vec<Problem>) = spec::parse_op(SourceFile::new("op.toml", text));
    op.map(|op| (dir, op, TORCH.to_owned())).ok_or(Failure::told(exit::SPEC))
}

fn human(lint: &Lint) -> String {
    let mut text = String::new();
    for finding in &lint.findings {
        text += &format!("warning: {}: {}\n  help: {}\n", finding.code, finding.summary, finding.help);
    }
    if let Some((case, lengths)) = lint.cut.first_key_value() {
        let count = lint.cut.len();
        text +=
            &format!("note: {count} cases were looked at with shorter lengths: `{case}` with {lengths}\n");
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
