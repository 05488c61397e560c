//! A capability that the CUDA releases of the project do not compile for, at either end of their range.
//!
//! Never: looks at a capability that nobody knows; `unknown_capability` does.

use crate::diagnostic::Problem;
use crate::spec::build::Kernel;
use crate::spec::nvcc::{self, CapabilitySupport, Releases};
use crate::spec::{Spanned, codes};
use crate::units::{BackendId, Capability, Version};

use crate::spec::project::Project;
use crate::spec::wording::list;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    project.build.kernels_of(BackendId::Cuda).flat_map(|kernel| judge(project, kernel)).collect()
}

fn judge(project: &Project<'_>, kernel: &Kernel) -> Vec<Problem> {
    let cuda = project.cuda_of(kernel);
    let known: Vec<_> = kernel
        .cuda_capabilities
        .iter()
        .filter_map(|capability| match nvcc::releases(capability.value) {
            CapabilitySupport::In(releases) => Some((capability, releases)),
            CapabilitySupport::NoSuffix | CapabilitySupport::Nowhere => None,
        })
        .collect();
    if cuda.is_empty() || known.len() < kernel.cuda_capabilities.len() {
        // Nothing to compare with, or reported already.
        return Vec::new();
    }
    let range = &project.build.general.cuda;
    let chosen = range.min.is_some() || range.max.is_some() || kernel.cuda_minver.is_some();
    let mut problems: Vec<_> = known
        .iter()
        .filter_map(|(capability, releases)| {
            let without: Vec<_> = cuda.iter().copied().filter(|cuda| !releases.contain(*cuda)).collect();
            match without.len() {
                count if count == cuda.len() => Some(never(project, capability, *releases, &cuda)),
                _ if releases.last.is_some_and(|last| last < nvcc::FETCHED) => {
                    Some(withdrawn(project, capability, *releases))
                }
                0 => None,
                // Who names no release gets the code that each has: that old ones lack new GPUs is no news.
                _ if !chosen => None,
                _ => Some(sometimes(project, capability, *releases, &without)),
            }
        })
        .collect();
    let useful = known.iter().any(|(_, releases)| cuda.iter().any(|cuda| releases.contain(*cuda)));
    let empty = cuda.iter().find(|cuda| !known.iter().any(|(_, releases)| releases.contain(**cuda)));
    if let (true, Some(empty), Some((first, _))) = (useful, empty, known.first()) {
        let message =
            format!("CUDA {empty} supports none of the capabilities of kernel `{}`", kernel.name.value);
        problems.push(
            Problem::error(codes::CAPABILITY_TOOLKIT, message)
                .at(&project.build.file, &first.span, "this one and those beside it")
                .help(format!(
                    "add a capability that it supports, or exclude CUDA {empty} with `minver` or `maxver` \
                     under [general.cuda]"
                )),
        );
    }
    problems
}

fn never(
    project: &Project<'_>,
    capability: &Spanned<Capability>,
    releases: Releases,
    cuda: &[Version],
) -> Problem {
    let message = format!("no CUDA version of the project supports capability {}", capability.number());
    Problem::error(codes::CAPABILITY_TOOLKIT, message)
        .at(&project.build.file, &capability.span, wanted(releases, cuda))
        .help(format!(
            "the project is built with CUDA {}; remove the capability, or change the range",
            list(cuda)
        ))
}

/// The compiler that is fetched is of a newer release, for builds with an older CUDA as well.
fn withdrawn(project: &Project<'_>, capability: &Spanned<Capability>, releases: Releases) -> Problem {
    let number = capability.number();
    let last = releases.last.map(|last| last.to_string()).unwrap_or_default();
    let message = format!(
        "the downloaded CUDA compiler does not support capability {number}; builds with \
         it omit this capability"
    );
    Problem::warning(codes::CAPABILITY_TOOLKIT, message)
        .at(
            &project.build.file,
            &capability.span,
            format!("CUDA {last} is the last version that supports it"),
        )
        .help(format!(
            "for {number}, use an installed CUDA {} to {last} with `--toolchain system`; otherwise remove \
             the capability",
            releases.first
        ))
}

fn sometimes(
    project: &Project<'_>,
    capability: &Spanned<Capability>,
    releases: Releases,
    without: &[Version],
) -> Problem {
    let number = capability.number();
    let verb = if without.len() == 1 { "does" } else { "do" };
    let message = format!("CUDA {} {verb} not support capability {number}", list(without));
    Problem::note(codes::CAPABILITY_TOOLKIT, message)
        .at(&project.build.file, &capability.span, wanted(releases, without))
        .help(format!(
            "builds for CUDA {} have no code for {number}; exclude them with `minver` and `maxver` under \
             [general.cuda]",
            list(without)
        ))
}

/// The end of the range that `cuda` is beyond.
fn wanted(releases: Releases, cuda: &[Version]) -> String {
    let too_old = cuda.iter().any(|cuda| *cuda < releases.first);
    let last = releases.last.filter(|last| cuda.iter().any(|cuda| cuda > last));
    match (too_old, last) {
        (true, Some(last)) => format!("needs CUDA {} to {last}", releases.first),
        (false, Some(last)) => format!("CUDA {last} is the last version that supports it"),
        _ => format!("CUDA {} is the first version that supports it", releases.first),
    }
}
