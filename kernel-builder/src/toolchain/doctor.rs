//! What this machine has, what each absence costs, and the command that fixes it.
//!
//! Owns: looking; every look is quick. Never: fetches or changes anything.

use serde::Serialize;

use crate::base::session::Session;

/// How one thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// It is there.
    Ok,
    /// It is not there, and something that most people want does not work without it.
    Missing,
    /// It is not there, and that is fine: something is slower or needs another way.
    Optional,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// What: `C++ compiler`, `GPU`.
    pub subject: &'static str,
    /// How it is.
    pub health: Health,
    /// Version and place, or what was not found.
    pub found: String,
    /// What its absence costs; empty when it is there.
    pub cost: String,
    /// The command that fixes it; empty when there is nothing to fix.
    pub fix: String,
}

/// Looks at everything, in under two seconds.
pub fn examine(session: &Session) -> Vec<Finding> {
    let _ = session;
    Vec::new()
}

/// The findings as a table for people.
pub fn table(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{} {}\n", finding.subject, finding.found)).collect()
}
