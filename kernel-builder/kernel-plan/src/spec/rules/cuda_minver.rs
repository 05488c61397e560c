//! A kernel whose `cuda-minver` is above every CUDA of the project: it would never be built.
//!
//! Never: judges the range of the project itself; `cuda_range` does.

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::units::BackendId;

use crate::spec::project::Project;
use crate::spec::wording::list;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let build = project.build;
    let cuda = project.cuda();
    if cuda.is_empty() {
        return Vec::new();
    }
    build
        .kernels_of(BackendId::Cuda)
        .filter_map(|kernel| {
            let minver = kernel.cuda_minver.as_ref()?;
            if cuda.iter().any(|cuda| minver.value <= *cuda) {
                return None;
            }
            let message = format!(
                "kernel `{}` is never built: every CUDA version of the project is below its `cuda-minver`",
                kernel.name.value
            );
            let problem = Problem::error(codes::CUDA_MINVER, message).at(
                &build.file,
                &minver.span,
                "above every CUDA version of the project",
            );
            let built = format!("the project is built with CUDA {}", list(&cuda));
            let problem = match &build.general.cuda.max {
                Some(max) => problem
                    .at(&build.file, &max.span, "the newest version allowed")
                    .help(format!("{built}; lower `cuda-minver`, or raise `maxver`")),
                None => problem.help(format!("{built}; lower `cuda-minver`")),
            };
            Some(problem)
        })
        .collect()
}
