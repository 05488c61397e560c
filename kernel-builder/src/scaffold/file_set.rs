//! Files that exist in memory until all of them are known to be good.
//!
//! Owns: the promise that nothing outside of the project is written and nothing is overwritten.
//! Never: writes a part of a set.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::base::files;

use super::ScaffoldError;

/// Files of a project by their path inside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSet(BTreeMap<PathBuf, Vec<u8>>);

impl FileSet {
    /// Adds a file; a path that could leave the project is refused.
    pub fn insert(
        &mut self,
        path: impl Into<PathBuf>,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<(), ScaffoldError> {
        let path = path.into();
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || path.as_os_str().is_empty() {
            return Err(ScaffoldError::Outside { path: path.display().to_string() });
        }
        self.0.insert(path, bytes.into());
        Ok(())
    }

    /// The bytes of a file, by its path inside the project.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.0.get(Path::new(path)).map(Vec::as_slice)
    }

    /// The files, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.0.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice()))
    }

    /// Writes all files below `dir`; refuses as a whole when one of them is there.
    pub fn write_to(&self, dir: &Path) -> Result<(), ScaffoldError> {
        let existing: Vec<String> = self
            .0
            .keys()
            .filter(|path| files::exists(&dir.join(path)))
            .map(|path| path.display().to_string())
            .collect();
        if !existing.is_empty() {
            return Err(ScaffoldError::WouldOverwrite { dir: dir.to_owned(), existing });
        }
        if files::exists(dir) {
            for (path, bytes) in &self.0 {
                files::write(&dir.join(path), bytes)?;
            }
            return Ok(());
        }
        let staged = files::staging_beside(dir)?;
        for (path, bytes) in &self.0 {
            files::write(&staged.path().join(path), bytes)?;
        }
        files::replace_dir(staged, dir)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_escapes_its_root(path in "[a-z./]{0,16}") {
            let mut set = FileSet::default();
            if set.insert(&path, "x").is_ok() {
                let root = Path::new("/srv/project");
                let mut depth = 0_i32;
                for part in Path::new(&path).components() {
                    depth += if part == Component::ParentDir { -1 } else { 1 };
                    prop_assert!(depth > 0);
                }
                prop_assert!(root.join(&path).starts_with(root));
            }
        }
    }

    #[test]
    fn refuses_to_overwrite_as_a_whole() {
        let root = files::scratch().unwrap();
        files::write(&root.path().join("b"), "mine").unwrap();
        let mut set = FileSet::default();
        set.insert("a", "new").unwrap();
        set.insert("b", "new").unwrap();
        let error = set.write_to(root.path()).unwrap_err();
        assert!(error.to_string().ends_with("already has b"), "{error}");
        assert!(!files::exists(&root.path().join("a")));
    }
}
