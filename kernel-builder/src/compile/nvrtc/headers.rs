//! Headers beside device code.
//!
//! Owns: which files are headers, and which of them a source uses. Never: compiles.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Source, inside};
use crate::base::disk;
use crate::base::files::{self, FileError};

/// The ends of their names.
const HEADERS: [&str; 4] = ["cuh", "h", "hpp", "inl"];

impl Source {
    /// The headers that it uses, with their texts: whoever changes one has other code.
    ///
    /// # Errors
    /// One cannot be read.
    pub(crate) fn headers(&self) -> Result<Vec<(String, Vec<u8>)>, FileError> {
        let mut all = used(&self.text, below(self)?);
        let places =
            all.iter().flat_map(|(name, _)| self.include.iter().map(move |folder| folder.join(name)));
        let known: BTreeSet<PathBuf> = places.map(|place| disk::real(&place)).collect();
        // Headers with another extension, or in another folder of the candidate.
        let named =
            inside::follow(self, &[]).files.into_iter().filter(|(_, file)| !known.contains(&file.real));
        all.extend(named.map(|(name, file)| (name, file.bytes)));
        Ok(all)
    }
}

/// The headers below a source's folders with their texts: they are a part of every source that is compiled with these
/// folders. What lies in hidden folders is made by programs, this one among them, and is none; nor is what a link leads to
/// outside of the candidate's folder, which no compiler may read.
///
/// # Errors
/// One cannot be read.
pub(super) fn below(source: &Source) -> Result<Vec<(String, Vec<u8>)>, FileError> {
    let is_header =
        |path: &Path| path.extension().is_some_and(|end| HEADERS.iter().any(|known| end == *known));
    let enter = |path: &Path| !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let mut found = Vec::new();
    for folder in &source.include {
        let root = disk::real(source.root.as_ref().unwrap_or(folder));
        let own = |path: &Path| disk::real(&folder.join(path)).starts_with(&root);
        for path in files::walk(folder, enter)?.into_iter().filter(|path| is_header(path) && own(path)) {
            found.push((path.display().to_string(), files::read(&folder.join(&path))?));
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
