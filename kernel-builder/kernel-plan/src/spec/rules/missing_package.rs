//! The Python package has the name that follows from the kernel's, and an `__init__.py`: without, nothing can be imported.
//!
//! Never: reports a project that has no Python at all yet.

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::units::RelPath;

use crate::spec::project::Project;

const INIT: &str = "__init__.py";

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    if !project.build.general.is_named {
        // The name itself has been reported.
        return Vec::new();
    }
    let (name, folder) = (&project.build.general.name, project.build.framework.folder());
    let package = format!("{folder}/{}", name.module());
    let inside =
        |path: &&RelPath| path.as_str().strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let python: Vec<_> =
        project.files.iter().filter(inside).filter(|path| path.extension() == Some("py")).collect();
    let wanted = format!("{package}/{INIT}");
    if python.is_empty() || python.iter().any(|path| path.as_str() == wanted) {
        return Vec::new();
    }
    let started = python.iter().any(|path| path.as_str().starts_with(&format!("{package}/")));
    let other = python.iter().find_map(|path| {
        let parent = path.as_str().strip_suffix(INIT)?.strip_suffix('/')?;
        (parent.matches('/').count() == 1).then_some(parent)
    });
    let (message, label, help) = match other {
        Some(other) if !started => (
            format!("the project has no Python package `{package}`"),
            format!("its package is not `{other}`"),
            format!("rename `{other}` to `{package}`"),
        ),
        _ => (
            format!("the Python package `{package}` has no `{INIT}`"),
            "the package of this kernel".to_owned(),
            format!("add `{wanted}`, with the names that callers import"),
        ),
    };
    let problem = Problem::error(codes::MISSING_PACKAGE, message).help(help);
    vec![problem.at(&project.build.file, &name.span, label)]
}
