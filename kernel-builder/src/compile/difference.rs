//! Where two builds of the same file differ, and what is likely to be behind it.
//!
//! Owns: reading the sections of two libraries side by side. Never: says which of the two is right.

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection};

/// How two files differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where, for a sentence: `section .rodata`, `line 3`.
    pub place: String,
    /// The text around the first byte that differs, in one and in the other; absent where it is no text.
    pub texts: Option<(String, String)>,
    /// What is likely to be behind it, as a sentence.
    pub explanation: String,
}

/// What two files that should be equal differ in; nothing when they are. `folders` are where the builds were made.
pub fn between(one: &[u8], other: &[u8], folders: [&str; 2]) -> Option<Difference> {
    if one == other {
        return None;
    }
    if let (Some(left), Some(right)) = (sections(one), sections(other)) {
        let names = |list: &[(String, &[u8])]| list.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        if names(&left) != names(&right) {
            return Some(Difference {
                place: "list of sections".to_owned(),
                texts: None,
                explanation: "one library has code or data that the other does not have: a source saw other \
                              macros or files"
                    .to_owned(),
            });
        }
        let differing = left.iter().zip(&right).find(|((_, one), (_, other))| one != other);
        let Some(((name, one), (_, other))) = differing else {
            return Some(Difference {
                place: "headers of the file".to_owned(),
                texts: None,
                explanation: "the linker chose another layout, although the command was the same".to_owned(),
            });
        };
        let texts = texts(one, other);
        let explanation = explanation(name, texts.as_ref(), folders);
        return Some(Difference { place: format!("section {name}"), texts, explanation });
    }
    let at = first_difference(one, other);
    let line = one[..at.min(one.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
    let texts = texts(one, other);
    let explanation = explanation("", texts.as_ref(), folders);
    Some(Difference { place: format!("line {line}"), texts, explanation })
}

/// The sections of a library, in order; `None` when it is none.
fn sections(bytes: &[u8]) -> Option<Vec<(String, &[u8])>> {
    let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(bytes).ok()?;
    let mut found = Vec::new();
    for section in file.sections() {
        found.push((section.name().ok()?.to_owned(), section.data().ok()?));
    }
    Some(found)
}

fn first_difference(one: &[u8], other: &[u8]) -> usize {
    let equal = one.iter().zip(other).take_while(|(one, other)| one == other);
    equal.count()
}

/// At most this many bytes before and after the first difference are shown.
const AROUND: usize = 60;

fn texts(one: &[u8], other: &[u8]) -> Option<(String, String)> {
    let at = first_difference(one, other);
    let shown = |bytes: &[u8]| {
        let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let (before, after) = bytes.split_at_checked(at)?;
        let lead = before.iter().rev().take(AROUND).take_while(|byte| printable(byte)).count();
        let rest = after.iter().take(AROUND).take_while(|byte| printable(byte)).count();
        let text = &bytes[at - lead..at + rest];
        (rest > 0 && text.len() > 3).then(|| String::from_utf8_lossy(text).into_owned())
    };
    Some((shown(one)?, shown(other)?))
}

fn explanation(section: &str, texts: Option<&(String, String)>, folders: [&str; 2]) -> String {
    if let Some((one, other)) = texts {
        let path = |text: &str| folders.iter().any(|folder| text.contains(folder));
        if path(one) || path(other) {
            return "a path of the folder that it was built in: a source or a flag of the project makes the \
                    path absolute"
                .to_owned();
        }
        if is_time(one) && is_time(other) {
            return "a time: __TIMESTAMP__, or a file that the project writes while it is built".to_owned();
        }
    }
    let known = match section {
        ".nv_fatbin" | "__nv_relfatbin" => {
            "GPU code: nvcc generated different machine code from the same source; compare with \
             `cuobjdump -sass`"
        }
        ".text" | ".init_array" | ".eh_frame" => {
            "the compiler generated different code: a flag uses random numbers or profile counts, or the \
             source depends on the machine"
        }
        ".dynsym" | ".dynstr" | ".gnu.hash" | ".symtab" | ".strtab" => {
            "symbol names: one of them is derived from a path, a time or a process number"
        }
        "" => "every build writes this file, and its content depends on the build",
        _ => {
            "data that the sources or their headers derive from something other than the files of the project"
        }
    };
    known.to_owned()
}

/// Whether a text holds a time of day.
fn is_time(text: &str) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_digit);
    text.as_bytes().windows(8).any(|window| {
        window[2] == b':'
            && window[5] == b':'
            && digits(&window[..2])
            && digits(&window[3..5])
            && digits(&window[6..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDERS: [&str; 2] = ["/scratch/one", "/scratch/two"];

    #[test]
    fn equal_files_do_not_differ() {
        assert_eq!(between(b"a", b"a", FOLDERS), None);
    }

    #[test]
    fn text_is_told_with_its_line() {
        let found =
            between(b"import torch\nat 12:00:01 sharp\n", b"import torch\nat 12:00:07 sharp\n", FOLDERS);
        let found = found.unwrap();
        assert_eq!(found.place, "line 2");
        assert_eq!(found.texts, Some(("at 12:00:01 sharp".to_owned(), "at 12:00:07 sharp".to_owned())));
        assert!(found.explanation.starts_with("a time"), "{}", found.explanation);
    }

    #[test]
    fn a_path_of_the_build_is_recognised() {
        let found = between(b"\0/scratch/one/a.h\0", b"\0/scratch/two/a.h\0", FOLDERS).unwrap();
        assert!(found.explanation.starts_with("a path"), "{}", found.explanation);
    }

    #[test]
    fn a_cut_file_differs_where_it_ends() {
        let found = between(b"one\ntwo", b"one\n", FOLDERS).unwrap();
        assert_eq!((found.place.as_str(), found.texts), ("line 2", None));
    }
}
