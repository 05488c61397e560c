//! A source whose text is not known, so that nothing was said about what is in it.
//!
//! Never: an error; a compiler may well read it.

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::spec::scan::Unread;

use super::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    project
        .sources
        .unread()
        .map(|(path, why)| {
            let (reason, help) = match why {
                Unread::TooLong { limit } => (
                    format!("it is longer than {limit} bytes"),
                    "it is compiled all the same; nothing is said about what it includes",
                ),
                Unread::NotText => ("it is not UTF-8".to_owned(), "save it as UTF-8"),
                Unread::Refused(why) => (why.clone(), "check that it is a file and yours to read"),
            };
            let listed = project.named_files().into_iter().find(|(_, listed)| listed.value == *path);
            let (file, span, label) = match listed {
                Some((file, listed)) => (file, &listed.span, "listed here"),
                None => (&project.build.file, &project.build.general.name.span, "of this kernel"),
            };
            Problem::warning(codes::UNREAD_SOURCE, format!("`{path}` was not looked at: {reason}"))
                .at(file, span, label)
                .help(help)
        })
        .collect()
}
