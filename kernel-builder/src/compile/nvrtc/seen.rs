//! The files that a source reads, looked at once for all its settings and architectures.
//!
//! Owns: the digest of these files, and telling that they changed. Never: compiles.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::headers::{self, DependencyScope};
use super::inside::{FileMark, FollowedFiles};
use super::unit::Source;
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};

/// A file that changed within so many seconds before it was read could change again under the same time stamp.
const SETTLED: u64 = 2;

/// A source's files as they were.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DependencySnapshot {
    /// Errors for what the source must not include, in a compiler's format.
    pub(super) refused: Vec<String>,
    /// Digest of all files that its machine code can depend on, besides those of the compiler.
    pub(super) digest: Digest,
    which: DependencyScope,
    marks: BTreeMap<PathBuf, Option<FileMark>>,
}

impl DependencySnapshot {
    pub(super) fn new(
        source: &Source,
        followed: FollowedFiles,
        refused: Vec<String>,
    ) -> Result<Self, FileError> {
        let which = DependencyScope::from_directives(&followed);
        let mut marks = followed.looked_at;
        let mut digest = DigestBuilder::new("cubin-reads");
        for (name, path) in headers::paths(source, which)? {
            marks.entry(path.clone()).or_insert_with(|| FileMark::read(&path));
            digest = digest.field("header", name).field("text", files::read(&path)?);
        }
        for (name, file) in followed.files {
            digest = digest.field("named", name).field("text", file.bytes);
        }
        Ok(Self { refused, digest: digest.finish(), which, marks })
    }

    /// Whether all files are as they were, and no other one came.
    pub(super) fn is_current(&self, source: &Source) -> Result<bool, FileError> {
        let paths = headers::paths(source, self.which)?;
        Ok(paths.iter().all(|(_, path)| self.marks.contains_key(path))
            && self.marks.iter().all(|(path, mark)| FileMark::read(path) == *mark))
    }

    pub(super) fn is_settled(&self) -> bool {
        let now = files::now();
        self.marks.values().flatten().all(|mark| mark.seconds().is_some_and(|then| then + SETTLED < now))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use super::super::Compiler;
    use super::*;
    use crate::compile::nvrtc::Kit;
    use crate::toolchain::nvrtc::NvrtcKit;

    #[test]
    fn files_are_looked_at_again_when_one_changed_or_came() {
        let folder = files::scratch().unwrap();
        let kit =
            NvrtcKit { library: "nowhere.so".into(), builtins: None, include: vec![], id: "1".to_owned() };
        let compiler = Compiler::new(Kit::Nvrtc(kit), &folder.path().join("cache")).unwrap();
        let root = folder.path().join("project");
        // Each older than the next one, so that no two have one time stamp.
        let mut age = 1000;
        let mut write = |name: &str, text: &str| {
            let path = root.join(name);
            files::write(&path, text).unwrap();
            age -= 10;
            let then = SystemTime::now() - Duration::from_secs(age);
            files::open(&path).unwrap().set_modified(then).unwrap();
        };
        write("row.cuh", "one");
        let text = "#include \"row.cuh\"\n#include \"later.txt\"\n".to_owned();
        let source =
            Source { text, name: "k.cu".to_owned(), include: vec![root.clone()], root: Some(root.clone()) };
        let seen = || compiler.dependencies(&source).unwrap();
        let first = seen();
        assert!(Arc::ptr_eq(&first, &seen()), "nothing changed, so nothing is read again");
        let mut digests = vec![first.digest];
        for (name, text) in [
            ("row.cuh", "two"),
            ("other.cuh", ""),
            ("later.txt", ""),
            ("later.txt", "#include T\n"),
            ("x.bin", "1"),
        ] {
            write(name, text);
            let now = seen();
            assert!(!digests.contains(&now.digest), "{name}");
            assert!(Arc::ptr_eq(&now, &seen()), "{name}");
            digests.push(now.digest);
        }
        // A file that could change again under the same time stamp is not relied on.
        files::write(&root.join("row.cuh"), "new").unwrap();
        assert!(!Arc::ptr_eq(&seen(), &seen()));
        files::remove_file(&root.join("row.cuh")).unwrap();
        assert!(!digests.contains(&seen().digest));
    }
}
