//! Every file and include folder that a specification names is there.
//!
//! Never: looks for itself; the caller lists the files.

use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, did_you_mean};
use crate::spec::{Spanned, codes};
use crate::units::RelPath;

use super::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let files = project.named_files().into_iter();
    let mut problems: Vec<_> = files
        .filter(|(_, path)| project.other_case(path).is_none())
        .filter_map(|(file, path)| missing_file(project, file, path))
        .collect();
    let folders = project.named_folders().into_iter();
    let folders = folders.filter(|path| project.other_case_of_folder(path).is_none());
    problems.extend(folders.filter_map(|path| missing_folder(project, path)));
    problems
}

fn missing_file(project: &Project<'_>, file: &Arc<SourceFile>, path: &Spanned<RelPath>) -> Option<Problem> {
    if project.files.contains(&path.value) {
        return None;
    }
    if project.files.iter().any(|known| known.is_under(&path.value)) {
        let message = format!("`{}` is a folder, and a file is wanted", path.value);
        let help = "name the files in it one by one; folders with headers belong into `include`";
        let problem = Problem::error(codes::SOURCE_MISSING, message).help(help);
        return Some(problem.at(file, &path.span, "a folder"));
    }
    let label = did_you_mean(path.as_str(), same_extension(project, path), "no such file");
    let message = format!("the project has no file `{}`", path.value);
    let help = "paths start at the project's folder; add the file, or take it out of the list";
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
        let message = format!("`{}` is a file, and a folder is wanted", path.value);
        let problem = Problem::error(codes::SOURCE_MISSING, message).help("name the folder that it lies in");
        return Some(problem.at(&project.build.file, &path.span, "a file"));
    }
    let parents = project.files.iter().filter_map(|known| known.as_str().rsplit_once('/'));
    let label = did_you_mean(path.as_str(), parents.map(|(folder, _)| folder), "no such folder");
    let message = format!("the project has no folder `{}`", path.value);
    let help = "include folders start at the project's folder and hold at least one file";
    Some(Problem::error(codes::SOURCE_MISSING, message).at(&project.build.file, &path.span, label).help(help))
}
