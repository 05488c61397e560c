//! The repository as the rules see it: every text file with its content.
//!
//! Owns: reading the files, and finding one by its path or its ending. Never: judges one.

use std::path::{Path, PathBuf};

use crate::repo;

/// The repository as the rules see it: every text file with its content.
pub(crate) struct Repository {
    /// Where it lies.
    pub(crate) root: PathBuf,
    /// Path from the root and content, sorted by path; files that are not UTF-8 are left out.
    pub(crate) files: Vec<(PathBuf, String)>,
}

impl Repository {
    /// Reads the files that git knows or would add.
    ///
    /// # Errors
    /// git does not list the files.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let read = |path: PathBuf| Some((path.clone(), std::fs::read_to_string(root.join(path)).ok()?));
        Ok(Self { root: root.to_owned(), files: repo::files(root)?.into_iter().filter_map(read).collect() })
    }

    /// The content of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        let at = self.files.binary_search_by(|(there, _)| there.as_path().cmp(Path::new(path))).ok()?;
        self.files.get(at).map(|(_, text)| text.as_str())
    }

    /// The files whose name ends with one of `endings`.
    pub(crate) fn with_ending(&self, endings: &[&str]) -> impl Iterator<Item = (&Path, &str)> {
        let wanted =
            |path: &Path| endings.iter().any(|ending| path.extension().is_some_and(|there| there == *ending));
        self.files
            .iter()
            .filter(move |(path, _)| wanted(path))
            .map(|(path, text)| (path.as_path(), text.as_str()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A repository of one file.
    pub(crate) fn one(path: &str, text: &str) -> Repository {
        several(&[(path, text)])
    }

    /// A repository of several files.
    pub(crate) fn several(files: &[(&str, &str)]) -> Repository {
        let mut files: Vec<(PathBuf, String)> =
            files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        files.sort();
        Repository { root: PathBuf::from("."), files }
    }
}
