//! `check`: every problem of build.toml, op.toml and the sources, in the order of the files.

use clap::Args as ClapArgs;
use kernel_plan::diagnostic::{Problem, Severity, has_errors};
use serde_json::{Value, json};

use crate::base::session::Session;
use crate::exit::{self, Failure};

use super::project::{self, ProjectDir};

/// Judge build.toml and op.toml: every problem at once, with its place
///
/// Nothing is built or fetched. Exit code 10 when there is an error.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let (project, problems) = project::read(&args.project.dir)?;
    let failed = has_errors(&problems) || project.is_none();
    let rows: Vec<Value> = problems.iter().map(row).collect();
    let mut human = String::new();
    for problem in &problems {
        human += &format!("{:?}\n", miette::Report::new(problem.clone()));
    }
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    human += &match (errors, problems.len() - errors) {
        (0, 0) => "no problems\n".to_owned(),
        (errors, others) => format!("{errors} errors, {others} warnings and notes\n"),
    };
    session.report.result("check", &json!({ "problems": rows, "ok": !failed }), &human);
    if failed { Err(Failure::told(exit::SPEC)) } else { Ok(()) }
}

fn row(problem: &Problem) -> Value {
    let labels: Vec<Value> = problem
        .labels
        .iter()
        .map(|(span, text)| {
            let (line, column) =
                problem.source.as_ref().map_or((0, 0), |file| position(&file.text, span.start));
            json!({ "start": span.start, "end": span.end, "line": line, "column": column, "text": text })
        })
        .collect();
    json!({
        "code": problem.code,
        "severity": match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        },
        "message": problem.message,
        "help": problem.help,
        "file": problem.source.as_ref().map(|file| &file.name),
        "labels": labels,
    })
}

/// Line and column of a byte offset, both from one.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() + 1)
}
