//! The step `device-code`: device code of examples and templates, compiled for every usual architecture.
//!
//! Owns: which files have device code, and that nothing is warned of. Never: compiles; `verify --device` does.

use std::fs;
use std::path::{Path, PathBuf};

use super::folders;
use super::run::Run;
use crate::talk::Talk;

/// A table of op.toml, or of backward.toml beside it, for a kernel that is started by its device code alone.
const LAUNCH: &str = "[launch]";

/// The examples of device code, and every template with some.
pub(crate) fn items(root: &Path) -> Result<Vec<String>, String> {
    let mut items = folders::folders(&root.join("examples"))?;
    items.retain(|name| is_example(name) && folders::has_line(&example(root, name), LAUNCH));
    for name in folders::templates(root)? {
        let folder = root.join("templates").join(&name);
        if files_with_launch(&folder, ".toml.j2")?.is_empty() {
            continue;
        }
        items.push(name);
    }
    Ok(items)
}

/// Judges the device code of each item.
pub(crate) fn run(run: &Run<'_>) -> Result<Vec<String>, String> {
    let rendered = run.site.ready.templates()?;
    let listed = items(&run.site.root)?;
    for name in folders::templates(&run.site.root)? {
        let found = files_with_launch(&rendered.join(&name), ".toml")?;
        if found.is_empty() == listed.contains(&name) {
            return Err(format!("the template {name} and its project differ on whether there is `{LAUNCH}`"));
        }
    }
    run.each(|item, talk| {
        let ops = if is_example(item) {
            vec![example(&run.site.root, item)]
        } else {
            files_with_launch(&rendered.join(item), ".toml")?
        };
        // All of them, so that one run shows everything that is wrong.
        let outcomes: Vec<_> = ops.iter().map(|op| judge(run, op, talk)).collect();
        outcomes.into_iter().collect()
    })
}

/// Nothing may be refused, or warned of: registers that spill are.
fn judge(run: &Run<'_>, op: &Path, talk: &mut Talk) -> Result<(), String> {
    let mut command = run.site.ready.kernelwright(&["verify", "--device"])?;
    let (text, outcome) = talk.heard(command.arg(op));
    outcome?;
    if text.lines().any(is_warning) {
        return Err(format!("`verify` warns of {}", op.display()));
    }
    Ok(())
}

fn is_warning(line: &str) -> bool {
    line.starts_with(' ') && line.trim_start().starts_with("warned")
}

/// Whether an item is an example; other examples have the names of their templates.
pub(crate) fn is_example(name: &str) -> bool {
    name.ends_with("-device")
}

fn example(root: &Path, name: &str) -> PathBuf {
    root.join("examples").join(name).join("op.toml")
}

/// The files of a folder with such an ending that start device code, sorted.
fn files_with_launch(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("failed to list {}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending) && folders::has_line(path, LAUNCH));
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn examples_and_templates_are_found() {
        let items = items(&repo::root()).unwrap();
        for name in ["matmul-device", "rms-norm-device", "swiglu", "transpose"] {
            assert!(items.iter().any(|item| item == name), "{name}: {items:?}");
        }
        assert!(!items.iter().any(|item| item == "rms-norm-strided"));
        // There is an example of this name, too.
        assert!(!is_example("swiglu") && is_example("matmul-device"));
    }

    #[test]
    fn a_warning_is_an_indented_row() {
        assert!(is_warning("  warned   spills               12 bytes"));
        assert!(!is_warning("warned") && !is_warning("  passed   warned"));
    }
}
