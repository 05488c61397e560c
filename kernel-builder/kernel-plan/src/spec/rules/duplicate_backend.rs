//! A backend that `general.backends` lists more than once.
//!
//! Never: removes it; the first is used until the author does.

use crate::diagnostic::Problem;
use crate::spec::codes;

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let backends = &project.build.general.backends.value;
    backends
        .iter()
        .enumerate()
        .filter_map(|(index, again)| {
            let first = backends[..index].iter().find(|earlier| earlier.value == again.value)?;
            let message = format!("`general.backends` lists `{}` twice", again.value);
            Some(
                Problem::error(codes::DUPLICATE_BACKEND, message)
                    .at(&project.build.file, &again.span, "again")
                    .at(&project.build.file, &first.span, "already here")
                    .help("remove one of them"),
            )
        })
        .collect()
}
