//! Every source, header and shipped file of a project can be read: nothing can be built with one that cannot.
//!
//! Never: looks for itself; the caller says what the operating system refused.

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::spec::scan::Unread;

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let refused = project.sources.unread().filter_map(|(path, why)| match why {
        Unread::Refused(why) => Some((path, why)),
        Unread::TooLong { .. } | Unread::NotText => None,
    });
    refused
        .map(|(path, why)| {
            let (file, span, label) = project.mention(path);
            Problem::error(codes::UNREADABLE_SOURCE, format!("failed to read `{path}`: {why}"))
                .at(file, span, label)
                .help("replace it with a regular file that you can read, or remove it from the project")
        })
        .collect()
}
