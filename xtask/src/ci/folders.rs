//! What folders and files of the checkout hold, for lists of items.
//!
//! Owns: the order of such a list. Never: knows a step.

use std::fs;
use std::path::Path;

/// The names of all templates, sorted.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn templates(root: &Path) -> Result<Vec<String>, String> {
    Ok(folders(&root.join("templates"))?
        .into_iter()
        .filter(|name| root.join("templates").join(name).join("template.toml").is_file())
        .collect())
}

/// The names of the folders in a folder, sorted.
///
/// # Errors
/// It cannot be read.
pub(crate) fn folders(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("failed to list {}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let folders = entries.into_iter().filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Whether a file has a line that begins so.
pub(crate) fn has_line(file: &Path, beginning: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line.starts_with(beginning)))
}
