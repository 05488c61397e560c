//! A capability that reads well and that no CUDA toolkit compiles for, such as 9.5 or 8.0a.
//!
//! Never: judges whether one given toolkit knows it; `capability_toolkit` does.

use crate::diagnostic::Problem;
use crate::spec::nvcc::{self, Known};
use crate::spec::{Spanned, codes};
use crate::units::{Capability, CapabilitySuffix};

use super::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    project.capability_lists().flatten().filter_map(|capability| refuse(project, capability)).collect()
}

fn refuse(project: &Project<'_>, capability: &Spanned<Capability>) -> Option<Problem> {
    let Capability { major, minor, suffix, .. } = capability.value;
    let (message, help) = match nvcc::releases(capability.value) {
        Known::In(_) => return None,
        Known::Nowhere => (
            format!("no CUDA toolkit compiles for capability {major}.{minor}"),
            format!(
                "the known ones are {}",
                nvcc::with_suffix(CapabilitySuffix::None).collect::<Vec<_>>().join(", ")
            ),
        ),
        Known::NoSuffix => (
            format!("{major}.{minor} has no form with `{}`", suffix.as_str()),
            format!(
                "write \"{major}.{minor}\"; with `{}` there are {}",
                suffix.as_str(),
                nvcc::with_suffix(suffix).collect::<Vec<_>>().join(", ")
            ),
        ),
    };
    let problem = Problem::error(codes::UNKNOWN_CAPABILITY, message).help(help);
    Some(problem.at(&project.build.file, &capability.span, "here"))
}
