//! Which files are published.
//!
//! Owns: the rule. Never: reads a file.

use std::path::{Path, PathBuf};

use crate::base::files::{self, FileError};

/// Python's caches are made on loading and are no part of a package.
pub(crate) fn is_shipped(folder: &Path) -> bool {
    !folder.ends_with("__pycache__")
}

/// The folder of the benchmarks, in a project and in a publication.
pub(super) const BENCHMARKS: &str = "benchmarks";

/// `benchmarks/` goes to the version branch of a hub, beside `build/`.
pub(super) fn extra_files(project: &Path) -> Result<Vec<(PathBuf, PathBuf)>, FileError> {
    let folder = project.join(BENCHMARKS);
    if !files::is_dir(&folder) {
        return Ok(Vec::new());
    }
    let names = files::walk(&folder, is_shipped)?;
    let python = names.into_iter().filter(|name| name.extension().is_some_and(|ending| ending == "py"));
    Ok(python.map(|name| (Path::new(BENCHMARKS).join(&name), folder.join(&name))).collect())
}
