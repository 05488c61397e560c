//! What must hold between the files of a project, one file per rule.
//!
//! Owns: the list of rules, and the order of what they report.
//! Never: lists a folder; the caller says which files there are.

use std::collections::BTreeSet;

use crate::diagnostic::Problem;
use crate::units::RelPath;

use super::{BuildSpec, OpSpec};

mod backend_without_kernel;
mod duplicate_backend;
mod python_depends;
mod source_missing;
mod undeclared_backend;
mod unknown_capability;
mod unlisted_header;

/// A project as far as its specifications and file names go.
#[derive(Debug, Clone, Copy)]
pub struct Project<'a> {
    /// build.toml.
    pub build: &'a BuildSpec,
    /// op.toml, where the project has one.
    pub op: Option<&'a OpSpec>,
    /// Every file of the project, from its folder.
    pub files: &'a BTreeSet<RelPath>,
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The name of its file and of its code.
    pub name: &'static str,
    /// Everything that breaks it.
    pub check: fn(&Project<'_>) -> Vec<Problem>,
}

/// Every rule, in the order in which they run.
pub const RULES: &[Rule] = &[
    Rule { name: "backend_without_kernel", check: backend_without_kernel::check },
    Rule { name: "duplicate_backend", check: duplicate_backend::check },
    Rule { name: "python_depends", check: python_depends::check },
    Rule { name: "source_missing", check: source_missing::check },
    Rule { name: "undeclared_backend", check: undeclared_backend::check },
    Rule { name: "unknown_capability", check: unknown_capability::check },
    Rule { name: "unlisted_header", check: unlisted_header::check },
];

/// Everything that breaks a rule: build.toml first, then op.toml, each in file order.
pub fn check(project: &Project<'_>) -> Vec<Problem> {
    let mut problems: Vec<_> = RULES.iter().flat_map(|rule| (rule.check)(project)).collect();
    problems.sort_by_key(|problem| {
        let name = problem.source.as_ref().map(|file| file.name.clone());
        (name, problem.offset())
    });
    problems
}
