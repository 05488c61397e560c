//! Every file and include folder that a specification names is there.
//!
//! Never: looks for itself; the caller lists the files.

use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, closest};
use crate::spec::{Spanned, codes};
use crate::units::RelPath;

use super::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let build = project.build;
    let torch = build.torch();
    let sources = torch.into_iter().flat_map(|torch| &torch.src);
    let sources = sources.chain(build.kernels.iter().flat_map(|kernel| &kernel.src));
    let folders = torch.into_iter().flat_map(|torch| &torch.include);
    let folders = folders.chain(build.kernels.iter().flat_map(|kernel| &kernel.include));
    let mut problems: Vec<_> = sources.filter_map(|path| missing_file(project, &build.file, path)).collect();
    problems.extend(folders.filter_map(|path| missing_folder(project, path)));
    if let Some(op) = project.op {
        problems.extend(missing_file(project, &op.file, &op.reference.file));
        let launch = op.launch.as_ref();
        problems.extend(launch.and_then(|launch| missing_file(project, &op.file, &launch.source)));
    }
    problems
}

fn missing_file(project: &Project<'_>, file: &Arc<SourceFile>, path: &Spanned<RelPath>) -> Option<Problem> {
    if project.files.contains(&path.value) {
        return None;
    }
    let is_folder = project.files.iter().any(|known| known.is_under(&path.value));
    let label = if is_folder {
        "this is a folder; name its files".to_owned()
    } else {
        closest(path.as_str(), same_extension(project, path))
            .map_or_else(|| "no such file".to_owned(), |known| format!("did you mean `{known}`?"))
    };
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
    let parents = project.files.iter().filter_map(|known| known.as_str().rsplit_once('/'));
    let label = closest(path.as_str(), parents.map(|(folder, _)| folder))
        .map_or_else(|| "no such folder".to_owned(), |known| format!("did you mean `{known}`?"));
    let message = format!("the project has no folder `{}`", path.value);
    let help = "include folders start at the project's folder and hold at least one file";
    Some(Problem::error(codes::SOURCE_MISSING, message).at(&project.build.file, &path.span, label).help(help))
}
