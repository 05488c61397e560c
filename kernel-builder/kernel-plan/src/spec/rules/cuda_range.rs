//! Bounds of [general.cuda] between which there is no CUDA that variants are built with.
//!
//! Never: objects to bounds that exclude each other; that is said when they are read.

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::units::BackendId;

use crate::spec::project::Project;
use crate::spec::wording::{list, range_problem};

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let build = project.build;
    if build.kernels_of(BackendId::Cuda).next().is_none() || !project.cuda().is_empty() {
        return Vec::new();
    }
    let all: Vec<_> = project.matrix.cuda_versions().into_iter().collect();
    let problem = range_problem(codes::CUDA_RANGE, "CUDA", &build.file, &build.general.cuda);
    problem
        .map(|problem| problem.help(format!("there are variants for CUDA {}", list(&all))))
        .into_iter()
        .collect()
}
