//! Keeps device code to the candidate's folder and the toolkit.
//!
//! Device code comes from an agent or a stranger, and the compiler's log goes into the verdict: with `#include
//! "/home/me/.netrc"` a candidate would have any file of the user quoted. The compiler's process is confined by the kernel
//! ([`crate::base::confine`]), whatever the preprocessor comes to. In addition the text is read here, for an error that
//! names the line; and if the operating system cannot confine a process, an include that a macro names is refused, too.
//!
//! Owns: the files of the candidate that its code names, and which names lead elsewhere. Never: preprocesses; it takes
//! more for an include than a compiler does, never less.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::directives::{self, Operand};
use super::unit::Source;
use crate::base::{disk, files};

/// Files that a source leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FollowedFiles {
    /// The candidate's files that are named, by path below its folder, with their bytes.
    pub(super) files: BTreeMap<String, IncludedFile>,
    /// Errors for names that lead out of the candidate's folder, in a compiler's format.
    pub(super) outside: Vec<String>,
    /// Places where a macro says what is read.
    pub(super) unclear: Vec<String>,
    /// Every path that was looked for, with the file that was there. Unless one of them changes, so does nothing here.
    pub(super) looked_at: BTreeMap<PathBuf, Option<FileMark>>,
}

/// A file of the candidate that its code names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IncludedFile {
    /// Its path, with links resolved.
    pub(super) real: PathBuf,
    /// Its content.
    pub(super) bytes: Vec<u8>,
}

/// A text that is still to be read.
struct UnreadText {
    /// Its name in errors.
    name: String,
    text: Vec<u8>,
    /// The folder that it lies in; unknown for a source that was given as a text.
    folder: Option<PathBuf>,
}

/// Compiler's own folders.
#[derive(Debug, Clone, Copy)]
pub(super) struct Folders<'a> {
    /// Its headers.
    pub(super) toolkit: &'a [PathBuf],
    /// The folders in which it may hold the source: a name between quotes that climbs is looked for from there first.
    pub(super) scratch: &'a [PathBuf],
}

/// Follows all that `source` names.
pub(super) fn follow(source: &Source, compiler: Folders<'_>) -> FollowedFiles {
    let roots: Vec<PathBuf> =
        source.root.iter().chain(&source.include).map(|root| disk::real(root)).collect();
    let toolkit: Vec<PathBuf> = compiler.toolkit.iter().map(|folder| disk::real(folder)).collect();
    let mut followed = FollowedFiles::default();
    let mut open =
        vec![UnreadText { name: source.name.clone(), text: source.text.clone().into_bytes(), folder: None }];
    let mut opened = BTreeSet::new();
    while let Some(UnreadText { name, text, folder }) = open.pop() {
        for directive in directives::read(&text) {
            let line = directive.line;
            let word = &directive.word;
            let outside = |named: &str| {
                format!(
                    "{name}({line}): error: `{word}` of `{named}`, which is outside of the candidate's folder and the toolkit"
                )
            };
            let (named, is_quoted) = match &directive.operand {
                Operand::Quoted(named) => (named, true),
                Operand::Bracketed(named) => (named, false),
                Operand::Shown(named) => {
                    if Path::new(named).is_absolute() || climbs(named) {
                        followed.outside.push(outside(named));
                    }
                    continue;
                }
                Operand::Computed => {
                    followed.unclear.push(format!(
                        "{name}({line}): error: `{word}` of a macro is not supported here: this operating system cannot \
                         confine the compiler (Landlock). Write the file name in quotes"
                    ));
                    continue;
                }
            };
            // A system call reads a name up to a NUL.
            let mut leads_out = Path::new(named).is_absolute() || named.contains('\0');
            let beside = match &folder {
                _ if !is_quoted => &[][..],
                Some(folder) => std::slice::from_ref(folder),
                // The folder itself holds nothing of the candidate's, so only a way out of it matters.
                None if climbs(named) => compiler.scratch,
                None => &[],
            };
            let places = beside.iter().chain(&source.include).chain(compiler.toolkit);
            let mut found = false;
            for place in places.map(|folder| folder.join(named)) {
                let mark = FileMark::read(&place);
                let is_there = mark.is_some();
                followed.looked_at.insert(place.clone(), mark);
                if !is_there {
                    continue;
                }
                let real = disk::real(&place);
                found = true;
                let Some(root) = roots.iter().find(|root| real.starts_with(root)) else {
                    leads_out |= !toolkit.iter().any(|folder| real.starts_with(folder));
                    continue;
                };
                let shown = real.strip_prefix(root).unwrap_or(&real).display().to_string();
                // A compiler looks beside the file in the folder that it was found in, which a link need not lie in.
                let folder = place.parent().map(disk::real);
                let fresh = opened.insert((folder.clone(), real.clone()));
                if let Some(bytes) = files::read(&real).ok().filter(|_| fresh) {
                    open.push(UnreadText { name: shown.clone(), text: bytes.clone(), folder });
                    followed.files.insert(shown, IncludedFile { real, bytes });
                }
            }
            // Even if the file does not exist here, `..` could lead up from a folder of the toolkit or the system. With
            // `#include_next` the compiler looks there, whatever was found.
            if leads_out || (climbs(named) && (!found || directive.is_next())) {
                followed.outside.push(outside(named));
            }
        }
    }
    followed
}

fn climbs(name: &str) -> bool {
    Path::new(name).components().any(|part| part == Component::ParentDir)
}

/// Errors for macros that could make a name which leads outside, in the source and in the files that it names.
pub(super) fn unclear_macros(source: &Source, followed: &FollowedFiles) -> Vec<String> {
    let texts = followed.files.iter().map(|(name, file)| (name, file.bytes.as_slice()));
    let all = std::iter::once((&source.name, source.text.as_bytes())).chain(texts);
    let errors = all.flat_map(|(name, text)| {
        directives::suspicious_macros(text).into_iter().map(move |line| {
            format!(
                "{name}({line}): error: the macro contains an absolute path or `..`, which could include a file outside \
                 of the project"
            )
        })
    });
    errors.collect()
}

/// A file as it was when it was read: a file that was changed since has another mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileMark {
    real: PathBuf,
    /// Its size, and the time of its last change in nanoseconds since 1970.
    stamp: Option<(u64, i128)>,
}

impl FileMark {
    /// The mark of a file; `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Option<Self> {
        files::exists(path).then(|| Self { real: disk::real(path), stamp: files::stamp(path).ok() })
    }

    /// The time of its last change, in seconds since 1970.
    pub(super) fn seconds(&self) -> Option<u64> {
        self.stamp.and_then(|(_, nanoseconds)| u64::try_from(nanoseconds / 1_000_000_000).ok())
    }
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

        fn follow(&self, text: &str) -> FollowedFiles {
            let root = self.folder.path().join("project");
            files::create_dirs(&root.join("kernels")).unwrap();
            let include = vec![root.join("kernels")];
            let text = text.replace("SECRET", &self.folder.path().join("secret").display().to_string());
            let source = Source { text, name: "kernels/k.cu".to_owned(), include, root: Some(root) };
            let scratch = self.folder.path().join("scratch");
            files::create_dirs(&scratch).unwrap();
            let compiler = Folders { toolkit: &[self.folder.path().join("toolkit")], scratch: &[scratch] };
            let mut followed = follow(&source, compiler);
            followed.unclear.extend(unclear_macros(&source, &followed));
            followed
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
    fn a_name_that_climbs_from_the_compilers_folder_to_a_file_is_outside() {
        let place = Place::new();
        place.write("kernels/deep/row.cuh", "");
        files::write(&place.folder.path().join("scratch/array"), "").unwrap();
        place.write("kernels/array", "");
        let followed =
            place.follow("#include \"array\"\n#include \"deep/row.cuh\"\n#include \"deep/../array\"\n");
        assert!(followed.outside.is_empty(), "{followed:?}");
        assert_eq!(followed.files.len(), 2, "{followed:?}");
        // It is found among the candidate's files, too, and a compiler finds the other one first.
        place.write("secret", "");
        assert_eq!(place.follow("#include \"../secret\"\n").outside.len(), 1);
    }

    #[test]
    fn every_way_out_of_the_folder_is_seen() {
        let place = Place::new();
        place.write("kernels/nested.cuh", "#include \"SECRET\"\n".replace("SECRET", "/etc/passwd").as_str());
        place.write("common/decoy.h", "");
        // Between angle brackets, a compiler does not look beside the file: this decoy is not what it finds.
        place.write("kernels/deep.cuh", "#include <../aside/decoy.h>\n");
        place.write("kernels/deep/deep.cuh", "");
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
            "#line 1 \"SECRET\"\n#error x",
            "#line /* */ 7 \"../../secret\"",
            "# 1 \"SECRET\"",
            "%: 0x1 \"SECRET\" 3",
            "int x;\n /* a\n */ # 1 \"SECRET\"",
            "#inc\\\u{b}\nlude \"SECRET\"",
            "#inc\\ \u{c}\0\nlude \"SECRET\"",
            "#\0include \"SECRET\"",
            "#include\0\"SECRET\"",
            "#include \"link.cuh\0x\"",
            "#include_next <../common/decoy.h>",
            "#if __has_include_next(\"../common/decoy.h\")\n#endif",
            "#include \"deep.cuh\"",
        ] {
            assert_eq!(place.follow(text).outside.len(), 1, "{text}");
        }
        for text in [
            "#define X \"SECRET\"\n",
            "#include X\n",
            "#if __has_include(X)\n",
            "#define ROOT /etc\n",
            "#define ROOT /**//etc\n",
            "#define X /*\n*/ \"SECRET\"\n",
            "#line 1 X\n",
            "#line X\n",
            "# 1 X\n",
            "#line 1 \"\\x2fetc\"\n",
        ] {
            let followed = place.follow(text);
            assert!(followed.outside.is_empty() && followed.unclear.len() == 1, "{text}: {followed:?}");
        }
    }
}
