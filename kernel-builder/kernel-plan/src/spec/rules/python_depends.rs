//! A Python package is listed where the `kernels` client looks for it: for all backends, or for the one it is made for.
//!
//! Never: knows the names that are allowed at all; the reading of the list refuses the others.

use crate::diagnostic::Problem;
use crate::spec::{Spanned, codes};
use crate::units::{BackendId, PythonDependency};

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let general = &project.build.general;
    let for_all = general.python_depends.iter().map(|depend| (None, depend));
    let for_one = general
        .backend_depends
        .iter()
        .flat_map(|own| own.python.iter().map(move |depend| (Some(own.backend), depend)));
    for_all
        .chain(for_one)
        .filter(|(listed, depend)| depend.backend() != *listed)
        .map(|(listed, depend)| misplaced(project, listed, depend))
        .collect()
}

fn misplaced(
    project: &Project<'_>,
    listed: Option<BackendId>,
    depend: &Spanned<PythonDependency>,
) -> Problem {
    let message = format!("`{}` is not a Python package that {} may list", depend.value, section(listed));
    let allowed: Vec<_> = PythonDependency::allowed(listed).map(PythonDependency::as_str).collect();
    let help = match (depend.backend(), allowed.as_slice()) {
        (None, _) => {
            "move it to `python-depends` of [general]; the client finds it there for every backend".to_owned()
        }
        (home @ Some(_), []) => {
            format!("move it to {}; {} has no Python packages of its own", section(home), section(listed))
        }
        (home @ Some(_), allowed) => {
            format!("move it to {}; {} may list {}", section(home), section(listed), allowed.join(", "))
        }
    };
    Problem::error(codes::PYTHON_DEPENDS, message)
        .at(&project.build.file, &depend.span, format!("it belongs in {}", section(depend.backend())))
        .help(help)
}

/// The section of a backend, or of all.
pub(super) fn section(backend: Option<BackendId>) -> String {
    backend.map_or_else(|| "[general]".to_owned(), |backend| format!("[general.{backend}]"))
}
