//! What a conversion from or to another format assumed and left out.
//!
//! Owns: how it is told. Never: converts; `kernel_plan::exchange` does.

use kernel_plan::diagnostic::{Problem, Severity};
use serde_json::{Value, json};

use crate::base::session::Session;
use crate::exit::Failure;

/// Tells what was assumed and left out, one line each; fails with the errors.
pub(crate) fn tell(problems: &[Problem], session: &Session) -> Result<(), Failure> {
    for problem in problems {
        let text = match &problem.help {
            Some(help) => format!("{} ({help})", problem.message),
            None => problem.message.clone(),
        };
        match problem.severity {
            Severity::Note => session.report.note(text),
            Severity::Warning => session.report.warn(text),
            Severity::Error => {}
        }
    }
    Failure::check_errors(problems)
}

/// Notes and warnings for programs.
pub(crate) fn rows(problems: &[Problem]) -> Vec<Value> {
    let row = |problem: &Problem| {
        let severity = problem.severity.as_str();
        json!({ "code": problem.code, "severity": severity, "message": problem.message, "help": problem.help })
    };
    problems.iter().map(row).collect()
}
