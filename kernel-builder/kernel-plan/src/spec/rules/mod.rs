//! What must hold between the files of a project, one file per rule.
//!
//! Owns: the list of rules, and the order of what they report.
//! Never: lists a folder or opens a file; the caller says which files there are and what is in them.

use crate::diagnostic::Problem;

mod backend_without_kernel;
mod capability_toolkit;
mod cuda_minver;
mod cuda_range;
mod duplicate_backend;
mod duplicate_capability;
mod fixed_namespace;
mod foreign_dependency;
mod foreign_import;
mod missing_dependency;
mod missing_package;
mod pybind;
mod python_depends;
mod repeated_source;
mod self_import;
mod source_case;
mod source_missing;
mod torch_range;
mod undeclared_backend;
mod unknown_capability;
mod unlisted_header;
mod unread_source;
mod unreadable_source;
mod unstable_header;
mod unused_dependency;
mod useless_ptx;
mod withdrawn_arch;

pub use super::project::Project;

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
    Rule { name: "capability_toolkit", check: capability_toolkit::check },
    Rule { name: "cuda_minver", check: cuda_minver::check },
    Rule { name: "cuda_range", check: cuda_range::check },
    Rule { name: "duplicate_backend", check: duplicate_backend::check },
    Rule { name: "duplicate_capability", check: duplicate_capability::check },
    Rule { name: "fixed_namespace", check: fixed_namespace::check },
    Rule { name: "foreign_dependency", check: foreign_dependency::check },
    Rule { name: "foreign_import", check: foreign_import::check },
    Rule { name: "missing_dependency", check: missing_dependency::check },
    Rule { name: "missing_package", check: missing_package::check },
    Rule { name: "pybind", check: pybind::check },
    Rule { name: "python_depends", check: python_depends::check },
    Rule { name: "repeated_source", check: repeated_source::check },
    Rule { name: "self_import", check: self_import::check },
    Rule { name: "source_case", check: source_case::check },
    Rule { name: "source_missing", check: source_missing::check },
    Rule { name: "torch_range", check: torch_range::check },
    Rule { name: "undeclared_backend", check: undeclared_backend::check },
    Rule { name: "unknown_capability", check: unknown_capability::check },
    Rule { name: "unlisted_header", check: unlisted_header::check },
    Rule { name: "unread_source", check: unread_source::check },
    Rule { name: "unreadable_source", check: unreadable_source::check },
    Rule { name: "unstable_header", check: unstable_header::check },
    Rule { name: "unused_dependency", check: unused_dependency::check },
    Rule { name: "useless_ptx", check: useless_ptx::check },
    Rule { name: "withdrawn_arch", check: withdrawn_arch::check },
];

/// Everything that breaks a rule: build.toml first, then op.toml, then sources by path, each in file order.
pub fn check(project: &Project<'_>) -> Vec<Problem> {
    let mut problems: Vec<_> = RULES.iter().flat_map(|rule| (rule.check)(project)).collect();
    let op = project.op.map(|op| op.file.name.as_str());
    in_order(&mut problems, &project.build.file.name, op.unwrap_or_default());
    problems
}

/// Sorts problems as they are told: those of build.toml, of op.toml, of other files by name, each in file order.
pub fn in_order(problems: &mut [Problem], build: &str, op: &str) {
    problems.sort_by_cached_key(|problem| {
        let name = problem.source.as_ref().map(|file| file.name.clone()).unwrap_or_default();
        (name != build, name != op, name, problem.offset())
    });
}
