//! A kernel for a backend that `general.backends` does not list would silently not be built.
//!
//! Never: repeats what was reported when the list was read.

use crate::diagnostic::Problem;
use crate::spec::codes;

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let build = project.build;
    if build.general.backends.is_empty() {
        // Reported when it was read; every kernel would repeat it.
        return Vec::new();
    }
    let undeclared = build.kernels.iter().filter(|kernel| !build.declares(kernel.backend.value));
    undeclared
        .map(|kernel| {
            let backend = kernel.backend.value;
            let name = &kernel.name.value;
            let message =
                format!("kernel `{name}` uses backend `{backend}`, which `general.backends` does not list");
            Problem::error(codes::UNDECLARED_BACKEND, message)
                .at(&build.file, &kernel.backend.span, "used here")
                .at(&build.file, &build.general.backends.span, "the declared backends")
                .help(format!("add \"{backend}\" to `general.backends`, or remove [kernel.{name}]"))
        })
        .collect()
}
