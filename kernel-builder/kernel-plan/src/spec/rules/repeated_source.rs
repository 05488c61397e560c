//! A file or folder that one list names twice.
//!
//! Never: compares the lists of two sections; they may share a source.

use std::collections::BTreeMap;

use crate::diagnostic::Problem;
use crate::spec::codes;

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let sections = crate::spec::scan::sections(project.build);
    let lists = sections.flat_map(|section| [section.src, section.include]);
    let mut problems = Vec::new();
    for list in lists {
        let mut seen = BTreeMap::new();
        for path in list {
            let Some(first) = seen.get(&path.value) else {
                seen.insert(&path.value, &path.span);
                continue;
            };
            problems.push(
                Problem::warning(codes::REPEATED_SOURCE, format!("`{}` is listed twice", path.value))
                    .at(&project.build.file, &path.span, "again")
                    .at(&project.build.file, first, "already here")
                    .help("remove one of them"),
            );
        }
    }
    problems
}
