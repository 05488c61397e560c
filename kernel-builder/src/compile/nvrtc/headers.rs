//! Headers beside device code.
//!
//! Owns: which files are headers, and which of them a source uses. Never: compiles.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::inside::{self, Folders, FollowedFiles};
use super::unit::Source;
use crate::base::disk;
use crate::base::files::{self, FileError};

/// Folders in which programs keep what they made, none of which is a candidate's code.
const MADE: [&str; 2] = [".git", ".kernelwright"];

/// Files of a candidate that its machine code can depend on, besides those that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DependencyScope {
    /// Headers, by the ends of their names.
    Headers,
    /// Every file of the candidate's folder: a macro says what is included.
    All,
}

impl DependencyScope {
    pub(super) fn from_directives(followed: &FollowedFiles) -> Self {
        if followed.unclear.is_empty() { Self::Headers } else { Self::All }
    }
}

/// The ends of their names.
const HEADERS: [&str; 4] = ["cuh", "h", "hpp", "inl"];

impl Source {
    /// The headers that it uses, with their texts: whoever changes one has other code.
    ///
    /// # Errors
    /// One cannot be read.
    pub(crate) fn headers(&self) -> Result<Vec<(String, Vec<u8>)>, FileError> {
        // No compiler's folders: its headers are not the candidate's.
        let followed = inside::follow(self, Folders { toolkit: &[], scratch: &[] });
        let which = DependencyScope::from_directives(&followed);
        let below = read(paths(self, which)?)?;
        if which == DependencyScope::All {
            return Ok(below);
        }
        let mut all = used(&self.text, below);
        let places =
            all.iter().flat_map(|(name, _)| self.include.iter().map(move |folder| folder.join(name)));
        let known: BTreeSet<PathBuf> = places.map(|place| disk::real(&place)).collect();
        // Headers with another extension, or in another folder of the candidate.
        let named = followed.files.into_iter().filter(|(_, file)| !known.contains(&file.real));
        all.extend(named.map(|(name, file)| (name, file.bytes)));
        Ok(all)
    }
}

fn read(paths: Vec<(String, PathBuf)>) -> Result<Vec<(String, Vec<u8>)>, FileError> {
    paths.into_iter().map(|(name, path)| Ok((name, files::read(&path)?))).collect()
}

/// The headers below a source's folders: they are a part of every source that is compiled with these folders. Headers in
/// hidden folders are made by programs, this one among them, and do not count. Nor does a link that leads out of the
/// candidate's folder, which no compiler may read.
///
/// If `which` is all files, those of the candidate's folder count, hidden ones too.
///
/// # Errors
/// A folder cannot be listed.
pub(super) fn paths(source: &Source, which: DependencyScope) -> Result<Vec<(String, PathBuf)>, FileError> {
    let is_header =
        |path: &Path| path.extension().is_some_and(|end| HEADERS.iter().any(|known| end == *known));
    let counts = |path: &Path| which == DependencyScope::All || is_header(path);
    let enter = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        match which {
            DependencyScope::Headers => !name.as_encoded_bytes().starts_with(b"."),
            DependencyScope::All => !MADE.iter().any(|made| name == *made),
        }
    };
    let mut found = Vec::new();
    let root = source.root.iter().filter(|_| which == DependencyScope::All);
    for folder in source.include.iter().chain(root) {
        let root = disk::real(source.root.as_ref().unwrap_or(folder));
        let is_inside = |path: &Path| disk::real(&folder.join(path)).starts_with(&root);
        let (names, irregular) = files::walk_apart(folder, enter)?;
        let is_file = |path: &PathBuf| which == DependencyScope::Headers || !irregular.contains(path);
        for path in names.into_iter().filter(|path| counts(path) && is_file(path) && is_inside(path)) {
            found.push((path.display().to_string(), folder.join(&path)));
        }
    }
    Ok(found)
}

/// The headers whose file names a source speaks of, or a header that it uses; the code of another operation beside it is
/// not among them. Where a macro says what is included, all are.
fn used(source: &str, headers: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let by_macro = |text: &str| {
        text.lines().filter_map(|line| line.trim_start().strip_prefix('#')).any(|line| {
            let included = line.trim_start().strip_prefix("include").map(str::trim_start);
            included.is_some_and(|name| !name.starts_with(['"', '<']))
        })
    };
    let (mut texts, mut found, mut rest) = (vec![source.to_owned()], Vec::new(), headers);
    while let Some(text) = texts.pop() {
        let (speaks, left) = rest.into_iter().partition::<Vec<_>, _>(|(name, _)| {
            let file = name.rsplit('/').next().unwrap_or(name);
            by_macro(&text) || text.contains(file)
        });
        texts.extend(speaks.iter().map(|(_, text)| String::from_utf8_lossy(text).into_owned()));
        found.extend(speaks);
        rest = left;
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_the_headers_that_it_uses_and_no_others() {
        let headers = || {
            [("vector.cuh", "#include \"word.cuh\""), ("word.cuh", ""), ("other.cuh", "")]
                .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
                .to_vec()
        };
        let names = |source| used(source, headers()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("#include \"vector.cuh\""), ["vector.cuh", "word.cuh"]);
        assert!(names("#include <cstdint>").is_empty());
        assert_eq!(names("# include HEADER").len(), 3);
    }

    #[test]
    fn if_a_macro_says_what_is_included_every_file_counts() {
        let folder = files::scratch().unwrap();
        let place = folder.path().join("tables/table.inc");
        files::write(&place, "one").unwrap();
        files::write(&folder.path().join(".kernelwright/verdicts/device.json"), "{}").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.inc")).unwrap();
        let include = vec![folder.path().join("kernels")];
        files::create_dirs(&include[0]).unwrap();
        let (name, root) = ("k.cu".to_owned(), Some(folder.path().to_owned()));
        let text = "#define T \"../tables/table.inc\"\n#include T\n".to_owned();
        let by_macro = Source { text, name, include, root };
        let named = vec![("tables/table.inc".to_owned(), b"one".to_vec())];
        assert_eq!(by_macro.headers().unwrap(), named);
        let literal = Source { text: "#include \"../tables/table.inc\"\n".to_owned(), ..by_macro.clone() };
        assert_eq!(literal.headers().unwrap(), named);
        let none = Source { text: String::new(), ..by_macro };
        assert!(none.headers().unwrap().is_empty());
    }

    #[test]
    fn a_header_that_is_changed_is_read_anew() {
        let folder = files::scratch().unwrap();
        let text = "#include \"row.cuh\"\n".to_owned();
        let (name, include) = ("k.cu".to_owned(), vec![folder.path().to_owned()]);
        let source = Source { text, name, include, root: None };
        assert!(source.headers().unwrap().is_empty());
        for text in ["one", "other"] {
            files::write(&folder.path().join("row.cuh"), text).unwrap();
            assert_eq!(source.headers().unwrap(), [("row.cuh".to_owned(), text.as_bytes().to_vec())]);
        }
    }
}
