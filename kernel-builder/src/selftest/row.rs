//! What came of one kernel.
//!
//! Owns: whether that is right. Never: judges a kernel.

use serde::Serialize;

use super::fixture::{Ring, Subject};
use super::verdict::{Expected, SelftestOutcome};

/// What came of one kernel.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The fixture's name.
    pub name: String,
    /// What it does, in a few words.
    pub does: String,
    /// What it needs.
    pub ring: Ring,
    /// What must come of it.
    pub expected: Expected,
    /// What came of it.
    pub seen: SelftestOutcome,
    /// Whether that is right; absent where it was not run.
    pub right: Option<bool>,
    /// The code that caught it: one that it must be refused with, if there is one, else the first.
    pub caught_by: Option<String>,
    /// Wall-clock time of its build and judgement.
    pub seconds: f64,
}

impl Row {
    pub(super) fn new(subject: Subject, ring: Ring, seen: SelftestOutcome, seconds: f64) -> Self {
        let Subject { name, does, expected } = subject;
        Self {
            name,
            does,
            ring,
            right: seen.is_right(&expected),
            caught_by: seen.caught_by(&expected).map(str::to_owned),
            expected,
            seen,
            seconds,
        }
    }
}
