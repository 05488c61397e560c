//! A dependency of a kernel of which no source includes a header.
//!
//! Never: says so where a source could not be read, or includes what nobody can find: it may come in there.

use crate::diagnostic::Problem;
use crate::spec::build::Kernel;
use crate::spec::headers;
use crate::spec::{codes, scan};

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let unread = project.sources.unread().next().is_some();
    let kernels = project.build.kernels.iter().filter(|_| !unread);
    kernels.flat_map(|kernel| judge(project, kernel)).collect()
}

fn judge(project: &Project<'_>, kernel: &Kernel) -> Vec<Problem> {
    let backend = kernel.backend.value;
    let outside = project.sources.outside(&scan::of_kernel(kernel), backend, project.files);
    let libraries: Vec<_> = outside.iter().map(|out| headers::library_of(&out.include.path)).collect();
    let lost = outside.iter().zip(&libraries).any(|(out, library)| !out.include.angled && library.is_none());
    if outside.is_empty() || lost {
        return Vec::new();
    }
    let unused = kernel.depends.iter().filter(|depends| {
        let (brought, only) = headers::brings(depends.value);
        // One for another backend has a problem of its own.
        only.is_none_or(|only| only == backend) && !libraries.contains(&Some(brought))
    });
    unused
        .map(|depends| {
            let message = format!(
                "no source of kernel `{}` includes a header of `{}`",
                kernel.name.value,
                depends.value.as_str()
            );
            Problem::note(codes::UNUSED_DEPENDENCY, message)
                .at(&project.build.file, &depends.span, "not included")
                .help("remove it, unless the kernel uses it without an `#include`")
        })
        .collect()
}
