//! A source that promises torch's stable ABI and includes a header outside of it.
//!
//! Never: an error, because a header may be harmless; the build's own check of the binary decides.

use crate::diagnostic::Problem;
use crate::spec::{codes, headers, scan};
use crate::units::BackendId;

use crate::spec::project::Project;
use crate::spec::wording::once;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let build = project.build;
    let Some(stable) = build.torch().and_then(|torch| torch.stable_abi.as_ref()) else { return Vec::new() };
    let covered = |backend: &BackendId| {
        stable.floor(*backend).is_some()
            && build.declares(*backend)
            && build.kernels_of(*backend).next().is_some()
    };
    let mut problems = Vec::new();
    for backend in BackendId::ALL.iter().copied().filter(covered) {
        let sections = scan::binding(build).into_iter().chain(build.kernels_of(backend).map(scan::of_kernel));
        for outside in sections.flat_map(|section| project.sources.outside(&section, backend, project.files))
        {
            let header = &outside.include.path;
            // What brings pybind11 has a problem of its own.
            if outside.certain && headers::is_unstable(header) && !headers::is_pybind(header) {
                let message = format!(
                    "`{header}` is not part of torch's stable ABI, which `torch.stable-abi` requires"
                );
                problems.push(
                    Problem::warning(codes::UNSTABLE_HEADER, message)
                        .at(outside.file, &outside.include.span, format!("included for {backend}"))
                        .help(
                            "include from torch/csrc/stable, torch/headeronly or torch/csrc/inductor/aoti_torch/c, or \
                             leave this backend out of `torch.stable-abi`",
                        ),
                );
            }
        }
    }
    once(problems)
}
