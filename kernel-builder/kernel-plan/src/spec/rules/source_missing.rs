//! Every file and include folder that a specification names is there.
//!
//! Never: looks for itself; the caller lists the files.

use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, did_you_mean};
use crate::spec::{Spanned, codes};
use crate::units::RelPath;

use crate::spec::project::Project;
use crate::spec::wording::MOST_OF_A_KIND;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let files = project.named_files().into_iter();
    let mut problems = Vec::new();
    for (file, path) in files.filter(|(_, path)| project.other_case(path).is_none()) {
        // To compare with every file takes time; a list that is wrong as a whole needs no more suggestions.
        let suggest = problems.len() < MOST_OF_A_KIND;
        problems.extend(missing_file(project, file, path, suggest));
    }
    let folders = project.named_folders().into_iter();
    let folders = folders.filter(|path| project.other_case_of_folder(path).is_none());
    problems.extend(folders.filter_map(|path| missing_folder(project, path)));
    problems
}

fn missing_file(
    project: &Project<'_>,
    file: &Arc<SourceFile>,
    path: &Spanned<RelPath>,
    suggest: bool,
) -> Option<Problem> {
    if project.files.contains(&path.value) {
        return None;
    }
    if project.files.iter().any(|known| known.is_under(&path.value)) {
        let message = format!("`{}` is a folder, not a file", path.value);
        let help = "list its files one by one; folders with headers belong in `include`";
        let problem = Problem::error(codes::SOURCE_MISSING, message).help(help);
        return Some(problem.at(file, &path.span, "a folder"));
    }
    let candidates = if suggest { same_extension(project, path) } else { Vec::new() };
    let label = did_you_mean(path.as_str(), candidates, "no such file");
    let message = format!("the project has no file `{}`", path.value.as_str().escape_debug());
    let help = if path.as_str().contains(char::is_control) {
        "between double quotes `\\` begins an escape, such as `\\n` for a new line; write paths with `/`"
    } else if path.as_str().contains(['*', '?', '[']) {
        "patterns are not supported: list the files one by one"
    } else {
        "paths are relative to the project folder; add the file, or remove it from the list"
    };
    Some(Problem::error(codes::SOURCE_MISSING, message).at(file, &path.span, label).help(help))
}

/// The files that could have been meant: those with the same extension.
fn same_extension<'a>(project: &Project<'a>, path: &RelPath) -> Vec<&'a str> {
    let alike = project.files.iter().filter(|known| known.extension() == path.extension());
    alike.map(RelPath::as_str).collect()
}

fn missing_folder(project: &Project<'_>, path: &Spanned<RelPath>) -> Option<Problem> {
    if project.files.iter().any(|known| known.is_under(&path.value)) {
        return None;
    }
    if project.files.contains(&path.value) {
        let message = format!("`{}` is a file, not a folder", path.value);
        let problem = Problem::error(codes::SOURCE_MISSING, message).help("name the folder that contains it");
        return Some(problem.at(&project.build.file, &path.span, "a file"));
    }
    let parents = project.files.iter().filter_map(|known| known.as_str().rsplit_once('/'));
    let label = did_you_mean(path.as_str(), parents.map(|(folder, _)| folder), "no such folder");
    let message = format!("the project has no folder `{}`", path.value);
    let help = "include folders are relative to the project folder and contain at least one file";
    Some(Problem::error(codes::SOURCE_MISSING, message).at(&project.build.file, &path.span, label).help(help))
}
