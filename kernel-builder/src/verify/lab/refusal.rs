//! What is wrong with a candidate that was tried in a lab.
//!
//! Owns: its code and its words. Never: tries anything.

use super::super::device::failure::meaning;
use crate::device::calls::Unplaced;
use crate::device::gpu::Failure;

/// What is wrong with a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CandidateRefusal {
    /// The code of the refusal.
    pub code: &'static str,
    /// What was found.
    pub text: String,
}

impl CandidateRefusal {
    pub(super) fn from_failure(failure: &Failure) -> Self {
        let (code, text) = meaning(failure);
        Self { code, text: format!("the kernel {text}") }
    }
}

impl From<Unplaced> for CandidateRefusal {
    fn from(error: Unplaced) -> Self {
        Self { code: "verify::launch", text: error.to_string() }
    }
}

/// What an attempt gave, or why the candidate is refused.
pub(crate) type Attempt<T> = Result<T, CandidateRefusal>;
