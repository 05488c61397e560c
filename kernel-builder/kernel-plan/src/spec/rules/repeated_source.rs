//! A file or folder that one list names twice.
//!
//! Never: compares the lists of two sections; they may share a source.

use crate::diagnostic::Problem;
use crate::spec::codes;

use super::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let sections = crate::spec::scan::sections(project.build);
    let lists = sections.flat_map(|section| [section.src, section.include]);
    lists
        .flat_map(|list| list.iter().enumerate().map(move |(index, path)| (&list[..index], path)))
        .filter_map(|(earlier, again)| {
            let first = earlier.iter().find(|path| path.value == again.value)?;
            Some(
                Problem::warning(codes::REPEATED_SOURCE, format!("`{}` is listed twice", again.value))
                    .at(&project.build.file, &again.span, "again")
                    .at(&project.build.file, &first.span, "already here")
                    .help("remove one of them"),
            )
        })
        .collect()
}
