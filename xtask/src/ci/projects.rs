//! The step `projects`: projects as other people write them, built as they stand; some must fail, with their own codes.
//!
//! Owns: nothing but the items. Never: compares; projects.rs does.

use std::path::Path;

use super::folders;
use super::run::Run;
use crate::projects;

/// The folders of tests/projects.
pub(crate) fn items(root: &Path) -> Result<Vec<String>, String> {
    folders::folders(&root.join("tests/projects"))
}

/// Builds each project and compares.
pub(crate) fn run(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.site.ready.torches()?;
    let program = run.site.ready.kernelwright(&[])?.get_program().to_owned();
    let all = projects::read(&run.site.root)?;
    run.each(|item, talk| {
        let project = all.iter().find(|project| project.name == item);
        let project = project.ok_or_else(|| format!("`{item}` is not a project"))?;
        projects::judge(project, &run.site.root, Path::new(&program), talk)
    })
}
