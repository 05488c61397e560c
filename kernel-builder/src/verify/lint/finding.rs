//! What the linter says of a task.
//!
//! Owns: the format of its results. Never: finds anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;

/// The name that findings have as a check in evidence.
pub(in crate::verify) const CHECK: &str = "task";

/// What the linter says of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lint {
    /// The operation's meaning: op.toml and the reference.
    pub op: Digest,
    /// The version of the linter's rules.
    pub protocol: u32,
    /// How many cases were looked at.
    pub cases: usize,
    /// Cases without an element, which say nothing.
    pub empty: Vec<String>,
    /// Cases that were computed at shorter lengths, each with these.
    pub cut: BTreeMap<String, String>,
    /// What a person should know, by code.
    pub findings: Vec<LintFinding>,
    /// What holds between the reference's results at related inputs, within the bound.
    pub relations: Vec<String>,
    /// `torch.__version__` of the Python that ran the reference.
    pub torch: String,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LintFinding {
    /// `lint::zeros` and so on; docs/reference/codes/lint.md.
    pub code: String,
    /// The output, input, scalar, axis or device that it is about.
    pub about: Option<String>,
    /// One sentence.
    pub summary: String,
    /// What to do.
    pub help: String,
    /// The cases where it was seen; empty where it is about all of them together.
    pub cases: Vec<FindingCase>,
}

/// A case where a finding was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingCase {
    /// The case.
    pub case: String,
    /// The share of elements at which the wrong answer passes, the least of all inputs; of `lint::narrow` how many values
    /// the bound tells apart, of `lint::tiny` the deviation.
    pub figure: f64,
}
