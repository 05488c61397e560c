//! A declared backend of a compiled kernel for which nothing is compiled: it ships Python alone.
//!
//! Never: an error, because a project may mean exactly that.

use crate::diagnostic::Problem;
use crate::spec::{build::Framework, codes};

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let build = project.build;
    if matches!(build.framework, Framework::TorchNoarch(_)) || build.unread_kernels > 0 {
        return Vec::new();
    }
    let backends = build.general.backends.iter();
    backends
        .filter(|backend| build.kernels_of(backend.value).next().is_none())
        .map(|backend| {
            let message =
                format!("no [kernel.NAME] is for backend `{}`, so nothing is compiled for it", backend.value);
            Problem::note(codes::BACKEND_WITHOUT_KERNEL, message)
                .at(&build.file, &backend.span, "declared here")
                .help(format!(
                    "add a [kernel.NAME] with backend = \"{}\", or remove it from the list",
                    backend.value
                ))
        })
        .collect()
}
