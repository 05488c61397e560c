//! A dependency that exists for another backend than the kernel's.
//!
//! Never: an error, because Hugging Face's builder passes over it.

use crate::diagnostic::Problem;
use crate::spec::{codes, headers};

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let kernels = project.build.kernels.iter();
    kernels
        .flat_map(|kernel| kernel.depends.iter().map(move |depends| (kernel, depends)))
        .filter_map(|(kernel, depends)| {
            let (library, only) = headers::brings(depends.value);
            let (only, backend) = (only?, kernel.backend.value);
            if only == backend {
                return None;
            }
            let help = match headers::newest(library, backend) {
                Some(other) => format!("for {backend} write \"{}\"", other.as_str()),
                None => format!("remove it: {backend} has no equivalent"),
            };
            let message =
                format!("`{}` is for {only}, but this kernel is for {backend}", depends.value.as_str());
            Some(
                Problem::warning(codes::FOREIGN_DEPENDENCY, message)
                    .at(&project.build.file, &depends.span, format!("only for {only}"))
                    .at(&project.build.file, &kernel.backend.span, "the kernel's backend")
                    .help(help),
            )
        })
        .collect()
}
