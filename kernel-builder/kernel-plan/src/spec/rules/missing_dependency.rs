//! A kernel that includes a header of a dependency that its `depends` does not list.
//!
//! Never: looks at a header that lies in the project, or that only some other build includes.

use crate::diagnostic::Problem;
use crate::spec::build::Kernel;
use crate::spec::codes;
use crate::spec::headers::{self, Library};
use crate::spec::scan;

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    project.build.kernels.iter().flat_map(|kernel| judge(project, kernel)).collect()
}

fn judge(project: &Project<'_>, kernel: &Kernel) -> Vec<Problem> {
    let backend = kernel.backend.value;
    let has = |library: Library| {
        kernel.depends.iter().any(|depends| {
            let (brought, only) = headers::brings(depends.value);
            brought == library && only.is_none_or(|only| only == backend)
        })
    };
    let mut told = Vec::new();
    let outside = project.sources.outside(&scan::of_kernel(kernel), backend, project.files);
    outside
        .iter()
        .filter(|outside| outside.certain && !project.has_vendored(&outside.include.path))
        .filter_map(|outside| {
            let library = headers::library_of(&outside.include.path)?;
            let wanted = headers::newest(library, backend)?;
            if has(library) || told.contains(&library) {
                return None;
            }
            told.push(library);
            let (name, wanted) = (&kernel.name.value, wanted.as_str());
            let message = format!(
                "kernel `{name}` includes `{}`, but its `depends` does not list {}",
                outside.include.path,
                library.name()
            );
            Some(
                Problem::warning(codes::MISSING_DEPENDENCY, message)
                    .at(outside.file, &outside.include.span, "included here")
                    .help(format!(
                        "add \"{wanted}\" to `depends` of [kernel.{name}]: otherwise the header may be \
                         missing on another machine"
                    )),
            )
        })
        .collect()
}
