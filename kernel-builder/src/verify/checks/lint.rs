//! Asks the linter whether the task can tell a kernel from a shortcut.
//!
//! Owns: the linter's findings as results of this judgement. Never: refuses: a poor task is no fault of a kernel.

use serde_json::json;

use super::super::evidence::{CheckResult, Outcome};
use super::super::findings::first_few;
use super::super::lint::CHECK as NAME;
use super::super::{NOT_LOADED, Subject, VerifyError, lint};
use crate::base::causes::chain;

/// Whether the task was linted, where nothing was found.
const CODE: &str = "lint::task";

/// Every finding as a warning, or that there is none.
pub(crate) fn check(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    let skipped = |code: &str, summary: String| {
        Ok(vec![CheckResult::new(NAME, code, Outcome::Skipped, summary, json!({}))])
    };
    // Without op.toml or a Python nothing can be judged; the check of the results says so.
    let (Some(op), Some(reference), Some(python)) = (subject.op, subject.reference, subject.python) else {
        return Ok(vec![]);
    };
    let known = lint::recalled(reference.op_digest(op), subject.session);
    let lint = match known {
        Some(known) => known,
        None if subject.loaded.is_none() => {
            return skipped(NOT_LOADED, "the package was not loaded, so the task was not linted".to_owned());
        }
        None => match lint::lint_text(op, reference, python, subject.options.threads, subject.session) {
            Ok(lint) => lint,
            Err(error @ (VerifyError::Reference { .. } | VerifyError::Harness { .. })) => {
                return skipped(CODE, format!("the task was not linted: {}", chain(&error)));
            }
            Err(error) => return Err(error),
        },
    };
    let mut results = Vec::new();
    if !lint.relations.is_empty() {
        let summary = format!("of the reference: {}", first_few(&lint.relations));
        let facts = json!({ "relations": lint.relations });
        results.push(CheckResult::new("relations", "lint::relations", Outcome::Passed, summary, facts));
    }
    let facts = json!({ "cases": lint.cases, "cut": lint.cut });
    if lint.findings.is_empty() {
        let cut = match lint.cut.len() {
            0 => String::new(),
            count => format!(", {count} of them at shorter lengths"),
        };
        let summary = format!("no shortcut passes in {} cases{cut}", lint.cases);
        results.insert(0, CheckResult::new(NAME, CODE, Outcome::Passed, summary, facts));
        return Ok(results);
    }
    let told = lint.findings.into_iter().map(|found| {
        let facts = json!({ "about": found.about, "cases": found.cases, "help": found.help });
        CheckResult::new(NAME, &found.code, Outcome::Warned, found.summary, facts)
    });
    results.splice(0..0, told);
    Ok(results)
}
