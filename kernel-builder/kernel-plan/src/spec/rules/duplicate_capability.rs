//! A capability that one kernel lists twice, with or without `+PTX`.
//!
//! Never: compares two kernels.

use crate::diagnostic::Problem;
use crate::spec::codes;

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    project
        .capability_lists()
        .flat_map(|list| list.iter().enumerate().map(move |(index, capability)| (&list[..index], capability)))
        .filter_map(|(earlier, again)| {
            let first = earlier.iter().find(|first| first.digits() == again.digits())?;
            let help = if first.ptx == again.ptx {
                "remove one of them"
            } else {
                "keep the one with `+PTX`: it includes the machine code"
            };
            let message = format!("capability {} is listed twice", again.number());
            Some(
                Problem::warning(codes::DUPLICATE_CAPABILITY, message)
                    .at(&project.build.file, &again.span, "again")
                    .at(&project.build.file, &first.span, "already here")
                    .help(help),
            )
        })
        .collect()
}
