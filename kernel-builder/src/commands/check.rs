//! `check`: every problem of build.toml, op.toml and the sources, in the order of the files.

use clap::{Args as ClapArgs, ValueEnum};
use kernel_plan::diagnostic::{Place, Problem, Severity, has_errors, summary};
use kernel_plan::spec::BuildSpec;
use serde_json::{Value, json};

use crate::base::annotation;
use crate::base::report::MessageFormat;
use crate::base::session::Session;
use crate::exit::{self, Failure};
use crate::pipeline::project::{self, Reading};

use super::arguments::ProjectDir;

/// Check build.toml, op.toml and the sources; report every problem
///
/// Each problem has its location and a fix. Nothing is built or downloaded. The exit code is 10 if there is an error;
/// warnings and notes alone do not fail. Source files over 8 MiB are skipped.
///
/// With `--message-format short`, each problem is one line, as editors read it: `path:line:column: severity[code]:
/// message (help)`. With `--message-format github`, each problem is an annotation for GitHub Actions.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright check fast-norm
  kernelwright check --deny warnings --message-format github    in CI")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    /// Also fail on these findings; notes never fail
    #[arg(long, value_enum, value_name = "WHAT")]
    deny: Option<Deny>,
    /// Check that this release tag matches `version`: `v1`, `v1.2` and `v1.2.3` match version 1
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
}

/// Findings that fail the command on request, beside errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Deny {
    /// All warnings
    Warnings,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let Reading { project, mut problems, missing } = project::read(&args.project.dir)?;
    let tag = args.tag.as_deref().zip(project.as_ref());
    problems.extend(tag.and_then(|(tag, project)| other_version(tag, &project.build)));
    let missing = missing.map(Failure::from);
    if problems.is_empty()
        && let Some(missing) = missing
    {
        return Err(missing);
    }
    let warned = problems.iter().any(|problem| problem.severity == Severity::Warning);
    let denied = warned && args.deny == Some(Deny::Warnings);
    let failed = has_errors(&problems) || project.is_none() || denied;
    match session.report.format() {
        MessageFormat::Human | MessageFormat::Json => {
            let rows: Vec<Value> = problems.iter().map(row).collect();
            let shown = if session.report.is_json() { String::new() } else { human(&problems, denied) };
            session.report.result("check", &json!({ "problems": rows, "ok": !failed }), &shown);
        }
        MessageFormat::Short => problems.iter().for_each(|problem| session.report.raw(&short(problem))),
        MessageFormat::Github => problems.iter().for_each(|problem| session.report.raw(&github(problem))),
    }
    match missing {
        Some(missing) => Err(missing),
        None if failed => Err(Failure::already_reported(exit::SPEC)),
        None => Ok(()),
    }
}

/// The problem of a tag that names another version than build.toml does.
fn other_version(tag: &str, build: &BuildSpec) -> Option<Problem> {
    let version = &build.general.version;
    let own = format!("v{}", version.value);
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = tag.strip_prefix(&own).is_some_and(|rest| match rest.strip_prefix('.') {
        Some(rest) => rest.split('.').all(number),
        None => rest.is_empty(),
    });
    let message = format!("tag `{tag}` is not a release of version {}", version.value);
    let problem = Problem::error("publish::tag", message).at(&build.file, &version.span, "the version");
    (!fits).then(|| problem.help(format!("tag it `{own}` or `{own}.N`, or change `version` first")))
}

/// Every problem with its lines, then how many there are.
fn human(problems: &[Problem], denied: bool) -> String {
    let mut text = String::new();
    for problem in problems {
        text += &format!("{:?}\n", miette::Report::new(problem.clone()));
    }
    let denied = if denied { "; warnings are denied" } else { "" };
    text + &format!("{}{denied}\n", summary(problems))
}

/// One problem in one line, as compilers write them.
fn short(problem: &Problem) -> String {
    let place = problem.place().map_or_else(String::new, |place| {
        format!("{}:{}:{}: ", place.file, place.start.line, place.start.column)
    });
    let help = problem.help.as_ref().map(|help| format!(" (help: {help})")).unwrap_or_default();
    let (severity, code) = (problem.severity.as_str(), problem.code);
    format!("{place}{severity}[{code}]: {}{help}", problem.message).replace(['\r', '\n'], " ")
}

/// One problem as an annotation.
fn github(problem: &Problem) -> String {
    let command = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let mut properties = Vec::new();
    if let Some(Place { file, start, end }) = problem.place() {
        properties.push(("file", file.to_owned()));
        properties.push(("line", start.line.to_string()));
        // GitHub drops the columns of a range over several lines, and complains.
        if start.line == end.line {
            properties.push(("col", start.column.to_string()));
        }
        properties.push(("endLine", end.line.to_string()));
        if start.line == end.line {
            properties.push(("endColumn", end.column.to_string()));
        }
    }
    properties.push(("title", problem.code.to_owned()));
    let properties: Vec<_> = properties.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let help = problem.help.as_ref().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
    annotation::line(command, &properties, &format!("{}{help}", problem.message))
}

fn row(problem: &Problem) -> Value {
    let labels: Vec<Value> = problem
        .labels
        .iter()
        .map(|(span, text)| {
            let place = problem.source.as_ref().map(|file| file.position(span.start));
            let (line, column) = place.map_or((0, 0), |place| (place.line, place.column));
            json!({ "start": span.start, "end": span.end, "line": line, "column": column, "text": text })
        })
        .collect();
    json!({
        "code": problem.code,
        "severity": problem.severity.as_str(),
        "message": problem.message,
        "help": problem.help,
        "file": problem.source.as_ref().map(|file| &file.name),
        "labels": labels,
    })
}
