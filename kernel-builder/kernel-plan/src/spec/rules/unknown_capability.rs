//! A capability that reads well and that no CUDA toolkit compiles for, such as 9.5 or 8.0a.
//!
//! Never: judges whether one given toolkit knows it; the backend does.

use crate::diagnostic::Problem;
use crate::spec::{Spanned, codes};
use crate::units::{Capability, CapabilitySuffix};

use super::Project;

/// The compute capabilities that toolkits 11 to 13 know, Jetson included.
/// Source: the CUDA C++ programming guide, section on compute capabilities, and nvcc's list of GPU names.
const KNOWN: &[(u32, u32)] = &[
    (5, 0),
    (5, 2),
    (5, 3),
    (6, 0),
    (6, 1),
    (6, 2),
    (7, 0),
    (7, 2),
    (7, 5),
    (8, 0),
    (8, 6),
    (8, 7),
    (8, 8),
    (8, 9),
    (9, 0),
    (10, 0),
    (10, 1),
    (10, 3),
    (11, 0),
    (12, 0),
    (12, 1),
];

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let kernels = project.build.kernels.iter();
    kernels
        .flat_map(|kernel| &kernel.cuda_capabilities)
        .filter_map(|capability| refuse(project, capability))
        .collect()
}

fn refuse(project: &Project<'_>, capability: &Spanned<Capability>) -> Option<Problem> {
    let Capability { major, minor, suffix, .. } = capability.value;
    let (message, help) = if !KNOWN.contains(&(major, minor)) {
        let known: Vec<_> = KNOWN.iter().map(|(major, minor)| format!("{major}.{minor}")).collect();
        (
            format!("no GPU has compute capability {major}.{minor}"),
            format!("the known ones are {}", known.join(", ")),
        )
    } else if suffix == CapabilitySuffix::A && major < 9 {
        ("architecture-specific code (`a`) begins with 9.0".to_owned(), format!("write \"{major}.{minor}\""))
    } else if suffix == CapabilitySuffix::F && major < 10 {
        ("family-specific code (`f`) begins with 10.0".to_owned(), format!("write \"{major}.{minor}\""))
    } else {
        return None;
    };
    let problem = Problem::error(codes::UNKNOWN_CAPABILITY, message).help(help);
    Some(problem.at(&project.build.file, &capability.span, "here"))
}
