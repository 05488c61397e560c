//! A path that differs from a file of the project in upper and lower case alone: it works on some machines.
//!
//! Never: reports what is missing altogether; `source_missing` does.

use crate::diagnostic::Problem;
use crate::spec::codes;

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let files = project.named_files().into_iter().map(|(file, path)| (file, path, project.other_case(path)));
    let folders = project.named_folders().into_iter();
    let folders = folders.map(|path| (&project.build.file, path, project.other_case_of_folder(path)));
    files
        .chain(folders)
        .filter_map(|(file, path, real)| {
            let real = real?;
            let message = format!("the project has `{real}`, not `{}`", path.value);
            let help = "use the same upper and lower case as on disk: most file systems are case-sensitive";
            Some(
                Problem::error(codes::SOURCE_CASE, message)
                    .at(file, &path.span, "upper and lower case differ")
                    .help(help),
            )
        })
        .collect()
}
