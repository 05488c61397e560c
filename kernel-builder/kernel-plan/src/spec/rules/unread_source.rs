//! A source whose text is not known, so that nothing was said about what is in it.
//!
//! Never: an error; a compiler may well read it.

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::spec::scan::Unread;

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    project
        .sources
        .unread()
        .filter_map(|(path, why)| {
            let (reason, help) = match why {
                Unread::TooLong { limit } => (
                    format!("it is longer than {limit} bytes"),
                    "it is still compiled, but its includes are not checked",
                ),
                Unread::NotText => ("it is not UTF-8".to_owned(), "save it as UTF-8"),
                // No compiler reads it either: `unreadable_source`.
                Unread::Refused(_) => return None,
            };
            let (file, span, label) = project.mention(path);
            let message = format!("`{path}` was not checked: {reason}");
            Some(Problem::warning(codes::UNREAD_SOURCE, message).at(file, span, label).help(help))
        })
        .collect()
}
