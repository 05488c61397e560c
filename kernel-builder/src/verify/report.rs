//! What a person sees of the checks while a judgement runs.
//!
//! Owns: which results are told. Never: decides how a check ends.

use super::evidence::{CheckResult, Outcome};
use crate::base::report::Event;
use crate::base::session::Session;

/// Tells the results of one check.
pub(super) fn tell(session: &Session, check: &str, found: &[CheckResult], seconds: f64) {
    for result in found {
        match result.outcome {
            Outcome::Warned => session.report.warn(format!("{}: {}", result.name, result.summary)),
            Outcome::Skipped => session.report.note(format!("{}: {}", result.name, result.summary)),
            Outcome::Passed | Outcome::Refused => {}
        }
    }
    let passed = found.iter().filter(|result| result.outcome == Outcome::Passed).count();
    if passed > 0 && passed == found.len() {
        let detail = found.first().map_or("", |result| result.summary.as_str());
        session.report.emit(&Event::Done {
            action: "checked",
            subject: check,
            detail,
            seconds,
            cached: false,
        });
    }
}
