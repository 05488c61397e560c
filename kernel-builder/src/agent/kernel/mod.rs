//! A candidate that is a whole kernel: device code and the sections of op.toml that start it.
//!
//! Owns: which files are part of one, how many and how large they may be, its name. Never: reads a file; believes a
//! candidate: its code is text until the judge compiled and compared it.

mod op_text;
mod proposed;
mod refused;

use std::collections::{BTreeMap, BTreeSet};

use crate::base::digest::DigestBuilder;

pub(crate) use op_text::{OpTextError, difference, merged, schedule, visible, with_schedule};
pub(crate) use proposed::{Origin, Proposal, ProposedKernel};
pub(crate) use refused::{KernelRefusal, MOST_BYTES, MOST_FILES};

/// Extensions of device code. Other files of the folder, such as a launcher in C++, are not part of a candidate.
const DEVICE_CODE: [&str; 8] = ["cu", "cuh", "h", "hh", "hpp", "hxx", "inc", "inl"];
/// Hexadecimal digits of a name.
const DIGITS: usize = 12;

/// A candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Texts by path in the project.
    files: BTreeMap<String, String>,
    /// `[let]`, `[tune]` and `[launch]`, as TOML.
    schedule: String,
}

impl Kernel {
    /// A candidate of these files, of which only those stay that `source` uses.
    ///
    /// # Errors
    /// A file is not UTF-8, there are too many, they are too large, or there is no code in them.
    pub(crate) fn new(
        files: BTreeMap<String, Vec<u8>>,
        source: &str,
        schedule: String,
    ) -> Result<Self, KernelRefusal> {
        let mut texts = BTreeMap::new();
        for (name, bytes) in files {
            let text = String::from_utf8(bytes).map_err(|_| KernelRefusal::not_text(&name))?;
            texts.insert(name, text);
        }
        let Some(text) = texts.get(source) else { return Err(KernelRefusal::no_source(source)) };
        if text.trim().is_empty() {
            return Err(KernelRefusal::empty(source));
        }
        let used = used(source, &texts);
        texts.retain(|name, _| used.contains(name));
        let bytes = texts.values().map(String::len).sum::<usize>() + schedule.len();
        if texts.len() > MOST_FILES || bytes > MOST_BYTES {
            return Err(KernelRefusal::too_large(texts.len(), bytes));
        }
        Ok(Self { files: texts, schedule })
    }

    /// Texts by path in the project.
    pub(crate) fn files(&self) -> &BTreeMap<String, String> {
        &self.files
    }

    /// `[let]`, `[tune]` and `[launch]`, as TOML.
    pub(crate) fn schedule(&self) -> &str {
        &self.schedule
    }

    /// Its name: the same for the same bytes.
    pub(crate) fn id(&self) -> String {
        let mut digest = DigestBuilder::new("kernel").field("schedule", &self.schedule);
        for (name, text) in &self.files {
            digest = digest.field("file", name).field("text", text);
        }
        digest.finish().short(DIGITS).to_owned()
    }
}

/// The folder of a path; nothing for the project's own.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether a file of the project could be part of a candidate whose code is in `folder`.
pub(crate) fn is_code(folder: &str, path: &str) -> bool {
    let below = if folder.is_empty() {
        Some(path)
    } else {
        path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'))
    };
    let Some(below) = below else { return false };
    let hidden = below.split('/').any(|part| part.starts_with('.'));
    let extension = below.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, end)| end);
    !hidden && extension.is_some_and(|end| DEVICE_CODE.contains(&end))
}

/// The files that a source speaks of by their names, and those that they speak of. Where a macro says what is included, it
/// is all of them.
fn used(source: &str, texts: &BTreeMap<String, String>) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::from([source.to_owned()]), vec![source.to_owned()]);
    while let Some(name) = open.pop() {
        let Some(text) = texts.get(&name) else { continue };
        let all = includes_by_macro(text);
        for other in texts.keys() {
            let file = other.rsplit('/').next().unwrap_or(other);
            if (all || text.contains(file)) && found.insert(other.clone()) {
                open.push(other.clone());
            }
        }
    }
    found
}

fn includes_by_macro(text: &str) -> bool {
    text.lines().filter_map(|line| line.trim_start().strip_prefix('#')).any(|line| {
        let included = line.trim_start().strip_prefix("include").map(str::trim_start);
        included.is_some_and(|name| !name.starts_with(['"', '<']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(files: &[(&str, &str)]) -> Result<Kernel, KernelRefusal> {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        Kernel::new(files.collect(), "k/k.cu", "[launch]\n".to_owned())
    }

    #[test]
    fn a_candidate_is_its_source_and_what_that_uses() {
        let files = [
            ("k/k.cu", "#include \"row.cuh\"\n"),
            ("k/row.cuh", "#include \"deep/word.h\"\n"),
            ("k/deep/word.h", "1"),
            ("k/other.cuh", "2"),
        ];
        let names = |files| kernel(files).unwrap().files.into_keys().collect::<Vec<_>>();
        assert_eq!(names(&files), ["k/deep/word.h", "k/k.cu", "k/row.cuh"]);
        assert_eq!(
            names(&[files[1], files[2], files[3], ("k/k.cu", "#define X \"row.cuh\"\n# include X")]).len(),
            4
        );
    }

    #[test]
    fn the_name_follows_from_every_byte_and_from_nothing_else() {
        let id = |files| kernel(files).unwrap().id();
        let first = id(&[("k/k.cu", "one")]);
        assert_eq!((first.len(), first.clone()), (DIGITS, id(&[("k/k.cu", "one"), ("k/unused.h", "2")])));
        assert_ne!(first, id(&[("k/k.cu", "one ")]));
        let other = Kernel { schedule: "[tune]\n".to_owned(), ..kernel(&[("k/k.cu", "one")]).unwrap() };
        assert_ne!(first, other.id());
    }

    #[test]
    fn what_is_no_candidate_has_a_code() {
        let code = |files: &[(&str, &str)]| kernel(files).unwrap_err().code;
        assert_eq!(code(&[("k/other.cu", "1")]), "agent::no_source");
        assert_eq!(code(&[("k/k.cu", " \n")]), "agent::empty");
        let long = "x".repeat(MOST_BYTES);
        assert_eq!(code(&[("k/k.cu", &long)]), "agent::too_large");
        assert!(kernel(&[("k/k.cu", &long[..MOST_BYTES - 20])]).is_ok());
        // What is not used does not count.
        assert!(kernel(&[("k/k.cu", "1"), ("k/long.h", &long)]).is_ok());
        let many: Vec<(String, String)> =
            (0..MOST_FILES).map(|number| (format!("k/part{number}.h"), String::new())).collect();
        let named = |count: usize| {
            let text: String =
                many[..count].iter().map(|(name, _)| format!("#include \"{}\"\n", &name[2..])).collect();
            let mut files: Vec<(&str, &str)> =
                many[..count].iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            files.push(("k/k.cu", &text));
            kernel(&files).map(|kernel| kernel.files.len()).map_err(|refused| refused.code)
        };
        assert_eq!((named(MOST_FILES - 1), named(MOST_FILES)), (Ok(MOST_FILES), Err("agent::too_large")));
        let bytes = BTreeMap::from([("k/k.cu".to_owned(), vec![0xff])]);
        assert_eq!(Kernel::new(bytes, "k/k.cu", String::new()).unwrap_err().code, "agent::not_text");
    }

    #[test]
    fn device_code_of_the_folder_is_code() {
        for (folder, path) in
            [("k", "k/a.cu"), ("k", "k/deep/a.cuh"), ("", "a.cu"), ("", "deep/a.h"), ("a/b", "a/b/c.inl")]
        {
            assert!(is_code(folder, path), "{folder} {path}");
        }
        for (folder, path) in [
            ("k", "a.cu"),
            ("k", "kk/a.cu"),
            ("k", "k/launch.cpp"),
            ("k", "k/.hidden/a.cu"),
            ("", "reference.py"),
            ("", "op.toml"),
            ("", "TASK.md"),
            ("", ".kernelwright/candidates/x/a.cu"),
            ("", "cu"),
        ] {
            assert!(!is_code(folder, path), "{folder} {path}");
        }
    }
}
