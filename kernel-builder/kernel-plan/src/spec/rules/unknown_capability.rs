//! A capability that reads well and that no CUDA toolkit compiles for, such as 9.5 or 8.0a.
//!
//! A warning where the kernel has others: the format's own builder leaves such a one out without a word, and published
//! kernels have them.
//!
//! Never: judges whether one given toolkit knows it; `capability_toolkit` does.

use crate::diagnostic::Problem;
use crate::spec::nvcc::{self, CapabilitySupport};
use crate::spec::{Spanned, codes};
use crate::units::{Capability, CapabilitySuffix};

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let lists = project.capability_lists();
    lists
        .flat_map(|list| {
            let known =
                |one: &Spanned<Capability>| matches!(nvcc::releases(one.value), CapabilitySupport::In(_));
            let others = list.iter().any(known);
            list.iter().filter_map(move |capability| refuse(project, capability, others))
        })
        .collect()
}

/// `others`: the list names capabilities that there are.
fn refuse(project: &Project<'_>, capability: &Spanned<Capability>, others: bool) -> Option<Problem> {
    let Capability { major, minor, suffix, .. } = capability.value;
    let (left_out, message, help) = match nvcc::releases(capability.value) {
        CapabilitySupport::In(_) => return None,
        CapabilitySupport::Nowhere => (
            others,
            format!("no CUDA toolkit supports capability {major}.{minor}"),
            format!(
                "known capabilities: {}",
                nvcc::with_suffix(CapabilitySuffix::None).collect::<Vec<_>>().join(", ")
            ),
        ),
        CapabilitySupport::NoSuffix => (
            false,
            format!("capability {major}.{minor} does not support the suffix `{}`", suffix.as_str()),
            format!(
                "write \"{major}.{minor}\"; capabilities with `{}`: {}",
                suffix.as_str(),
                nvcc::with_suffix(suffix).collect::<Vec<_>>().join(", ")
            ),
        ),
    };
    let problem = if left_out {
        Problem::warning(codes::UNKNOWN_CAPABILITY, format!("{message}; it is ignored"))
    } else {
        Problem::error(codes::UNKNOWN_CAPABILITY, message)
    };
    Some(problem.help(help).at(&project.build.file, &capability.span, "here"))
}
