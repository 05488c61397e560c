//! `+PTX` on an architecture-specific capability: that PTX runs on no other GPU, and this one has machine code.
//!
//! Source: the CUDA C++ programming guide, section on architecture-specific features.
//! Never: objects to PTX of a family.

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::units::CapabilitySuffix;

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let all = project.capability_lists().flatten();
    let useless = all.filter(|capability| capability.ptx && capability.suffix == CapabilitySuffix::A);
    useless
        .map(|capability| {
            let (specific, plain) =
                (capability.number(), format!("{}.{}", capability.major, capability.minor));
            let message = format!(
                "the PTX of `{specific}` runs only on GPUs of capability {plain}, which already \
                 have machine code"
            );
            Problem::warning(codes::USELESS_PTX, message)
                .at(&project.build.file, &capability.span, "`+PTX` adds nothing here")
                .help(format!(
                    "write \"{specific}\"; for later GPUs add one without `a`, such as \"{plain}+PTX\""
                ))
        })
        .collect()
}
