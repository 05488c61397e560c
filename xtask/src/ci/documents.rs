//! The step `documents`: the commands of README.md and of the tutorials, run as a reader runs them.
//!
//! Owns: the list of pages. Never: reads a page; tests/documents/run.py does.

use std::path::Path;
use std::process::Command;

use super::run::Run;
use crate::talk::Talk;

/// Runs the commands of pages, and compares what they print.
const SCRIPT: &str = "tests/documents/run.py";
/// The folder of the tutorials.
const TUTORIALS: &str = "docs/tutorials";

/// The names of the pages, without their ending.
pub(crate) fn items(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join(TUTORIALS);
    let failed = |error: std::io::Error| format!("failed to list {}: {error}", folder.display());
    let entries =
        std::fs::read_dir(&folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let names = entries.iter().filter_map(|entry| entry.file_name().into_string().ok());
    let mut items: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".md").map(str::to_owned)).collect();
    items.push("README".to_owned());
    items.sort();
    Ok(items)
}

/// Runs each page, after the script has refused its broken pages.
pub(crate) fn run(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.site.ready.torch()?;
    let site = run.site.ready.site("2.11")?;
    let program = run.site.ready.kernelwright(&[])?.get_program().to_owned();
    let programs = Path::new(&program).parent().unwrap_or(&run.site.root).to_owned();
    let script = || {
        let mut command = Command::new("python3");
        command.arg(SCRIPT).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(&run.site.root);
        command
    };
    Talk::Live.run(script().arg("--self-test"))?;
    run.each(|page, talk| {
        talk.run(script().arg("--programs").arg(&programs).arg("--site").arg(&site).arg(page))
    })
}
