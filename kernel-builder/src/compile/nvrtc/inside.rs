//! Keeps device code to the candidate's folder and the toolkit.
//!
//! Device code comes from an agent or a stranger, and the compiler's log goes into the verdict: with `#include
//! "/home/me/.netrc"` a candidate would have any file of the user quoted. The compiler's process is confined by the kernel
//! ([`crate::base::confine`]), whatever the preprocessor comes to. In addition the text is read here, for an error that
//! names the line; and where the kernel cannot confine a process, an include that a macro names is refused, too.
//!
//! Owns: the files of the candidate that its code names, and which names lead elsewhere. Never: preprocesses; it takes
//! more for an include than a compiler does, never less.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::Source;
use super::directives::{self, Directive, Operand};
use crate::base::{disk, files};

/// Files that a source leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// The candidate's files that are named, by path below its folder, with their bytes.
    pub(super) files: BTreeMap<String, Named>,
    /// Errors for names that lead out of the candidate's folder, in a compiler's format.
    pub(super) outside: Vec<String>,
    /// Places where a macro says what is included, or could make a name that leads outside.
    pub(super) unclear: Vec<String>,
}

/// A file of the candidate that its code names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// Its path, with links resolved.
    pub(super) real: PathBuf,
    /// Its content.
    pub(super) bytes: Vec<u8>,
}

/// A text that is still to be read.
struct Open {
    /// Its name in errors.
    name: String,
    text: Vec<u8>,
    /// The folder that it lies in; unknown for a source that was given as a text.
    folder: Option<PathBuf>,
}

/// Follows all that `source` names. `toolkit` are the compiler's own folders of headers.
pub(super) fn follow(source: &Source, toolkit: &[PathBuf]) -> Followed {
    let roots: Vec<PathBuf> =
        source.root.iter().chain(&source.include).map(|root| disk::real(root)).collect();
    let toolkit: Vec<PathBuf> = toolkit.iter().map(|folder| disk::real(folder)).collect();
    let mut followed = Followed::default();
    let mut open =
        vec![Open { name: source.name.clone(), text: source.text.clone().into_bytes(), folder: None }];
    while let Some(Open { name, text, folder }) = open.pop() {
        for directive in directives::read(&text) {
            let Directive { line, word, operand } = &directive;
            let Operand::Named(named) = operand else {
                followed
                    .unclear
                    .push(format!("{name}({line}): error: `{word}` of something that is not a name"));
                continue;
            };
            let mut leads_out = Path::new(named).is_absolute();
            let places = folder.iter().chain(&source.include).chain(&toolkit);
            let mut found = false;
            for place in places.map(|folder| folder.join(named)).filter(|place| files::exists(place)) {
                let real = disk::real(&place);
                found = true;
                let Some(root) = roots.iter().find(|root| real.starts_with(root)) else {
                    leads_out |= !toolkit.iter().any(|folder| real.starts_with(folder));
                    continue;
                };
                let shown = real.strip_prefix(root).unwrap_or(&real).display().to_string();
                let fresh = !followed.files.contains_key(&shown);
                if let Some(bytes) = files::read(&real).ok().filter(|_| fresh) {
                    let folder = real.parent().map(Path::to_owned);
                    open.push(Open { name: shown.clone(), text: bytes.clone(), folder });
                    followed.files.insert(shown, Named { real, bytes });
                }
            }
            // Even if the file does not exist here, `..` could lead up from a folder of the toolkit or the system.
            let climbs = Path::new(named).components().any(|part| part == Component::ParentDir);
            if leads_out || (climbs && !found) {
                followed.outside.push(format!(
                    "{name}({line}): error: `{word}` of `{named}`, which is outside of the candidate's folder and the toolkit"
                ));
            }
        }
        for line in directives::suspicious_macros(&text) {
            followed
                .unclear
                .push(format!("{name}({line}): error: a macro that holds an absolute path or `..`"));
        }
    }
    followed
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let folder = files::scratch().unwrap();
            files::write(&folder.path().join("secret"), "password").unwrap();
            files::write(&folder.path().join("toolkit/cuda_fp16.h"), "").unwrap();
            Self { folder }
        }

        fn write(&self, name: &str, text: &str) {
            files::write(&self.folder.path().join("project").join(name), text).unwrap();
        }

        fn follow(&self, text: &str) -> Followed {
            let root = self.folder.path().join("project");
            files::create_dirs(&root.join("kernels")).unwrap();
            let include = vec![root.join("kernels")];
            let text = text.replace("SECRET", &self.folder.path().join("secret").display().to_string());
            let source = Source { text, name: "kernels/k.cu".to_owned(), include, root: Some(root) };
            follow(&source, &[self.folder.path().join("toolkit")])
        }
    }

    #[test]
    fn the_candidates_own_files_are_followed_through_any_ending() {
        let place = Place::new();
        place.write("kernels/row.cuh", "#include \"../common/word.txt\"\n");
        place.write("common/word.txt", "1");
        let followed = place.follow("#include <cuda_fp16.h>\n#include <cstdint>\n#include \"row.cuh\"\n");
        let names: Vec<&String> = followed.files.keys().collect();
        assert_eq!(names, ["common/word.txt", "kernels/row.cuh"]);
        assert!(followed.outside.is_empty() && followed.unclear.is_empty(), "{followed:?}");
    }

    #[test]
    fn every_way_out_of_the_folder_is_seen() {
        let place = Place::new();
        place.write("kernels/nested.cuh", "#include \"SECRET\"\n".replace("SECRET", "/etc/passwd").as_str());
        let secret = place.folder.path().join("secret");
        std::os::unix::fs::symlink(&secret, place.folder.path().join("project/kernels/link.cuh")).unwrap();
        for text in [
            "#include \"SECRET\"",
            "# /* */ include /* */ <SECRET>",
            "%:include \"SECRET\"",
            "??=include \"SECRET\"",
            "#inc\\\nlude \"SECRET\"",
            "#include_next <SECRET>",
            "#import \"SECRET\"",
            "#embed \"SECRET\"",
            "#include \"../../secret\"",
            "#include <../secret>",
            "#include <../../../../../../etc/hostname-that-is-not-there>",
            "#if __has_include(\"SECRET\")\n#endif",
            "#if __has_embed ( <SECRET> )\n#endif",
            "#include \"link.cuh\"",
            "#include \"nested.cuh\"",
        ] {
            assert_eq!(place.follow(text).outside.len(), 1, "{text}");
        }
        for text in
            ["#define X \"SECRET\"\n", "#include X\n", "#if __has_include(X)\n", "#define ROOT /etc\n"]
        {
            let followed = place.follow(text);
            assert!(followed.outside.is_empty() && followed.unclear.len() == 1, "{text}: {followed:?}");
        }
    }
}
