//! What a model is told of a candidate: short, with a place in its own files, and with no path of the machine.
//!
//! Owns: the limit of a text, and what of a compiler's log stays. Never: decides what is wrong.

use serde::Serialize;

/// Bytes of the longest reason.
pub(crate) const MOST: usize = 4 << 10;
/// In the place of what was left out.
const CUT: &str = "\n[...]\n";

/// A place in a file of the candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Place {
    /// The path in the project.
    pub(crate) file: String,
    /// The line, from one.
    pub(crate) line: u32,
}

/// A text of at most [`MOST`] bytes: its beginning, and of a longer one its end, too.
pub(crate) fn short(text: &str) -> String {
    if text.len() <= MOST {
        return text.to_owned();
    }
    let end = 512;
    let head = floor(text, MOST - end - CUT.len());
    let tail = ceil(text, text.len() - end);
    format!("{}{CUT}{}", &text[..head], &text[tail..])
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// A compiler's log: without the folder that the candidate lies in, so that its files have the names that the candidate
/// knows, and without the folders of the toolkit.
pub(crate) fn log(text: &str, folder: &str) -> String {
    let text = text.replace(&format!("{folder}/"), "");
    let lines = text.trim().lines().map(|line| {
        let words = line.split_inclusive([' ', '"', '(', '\'', '`']).map(without_folder);
        words.collect::<String>()
    });
    short(&lines.collect::<Vec<_>>().join("\n"))
}

/// A word that is an absolute path becomes its last part.
fn without_folder(word: &str) -> String {
    match word.rsplit_once('/') {
        Some((folder, file))
            if word.starts_with('/')
                && !word.starts_with("//")
                && folder.contains('/')
                && !file.is_empty() =>
        {
            file.to_owned()
        }
        _ => word.to_owned(),
    }
}

/// The first place of a log that lies in one of these files: `norm.cu(12): error`, `norm.cu:12:`.
pub(crate) fn place<'a>(text: &str, files: impl Iterator<Item = &'a String>) -> Option<Place> {
    let mut found: Vec<(usize, Place)> = Vec::new();
    for file in files {
        let name = file.rsplit('/').next().unwrap_or(file);
        for (at, _) in text.match_indices(name) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == '.') {
                continue;
            }
            let rest = &text[at + name.len()..];
            let Some(digits) = rest.strip_prefix(['(', ':']) else { continue };
            let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
            if let Ok(line) = digits[..end].parse() {
                found.push((at, Place { file: file.clone(), line }));
                break;
            }
        }
    }
    found.into_iter().min_by_key(|(at, _)| *at).map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_never_longer_than_the_limit() {
        assert_eq!(short("wrong"), "wrong");
        for unit in ["x", "é", "日本\n"] {
            let long = format!("first {} last", unit.repeat(MOST));
            let found = short(&long);
            assert!(found.len() <= MOST && found.len() > MOST - 16, "{}", found.len());
            assert!(found.starts_with("first") && found.ends_with("last") && found.contains("[...]"));
        }
    }

    #[test]
    fn a_log_has_no_folder_of_the_machine() {
        let text = "/tmp/x/k/norm.cu(12): error: bad\n  see /home/me/.cache/wheels/cuda_fp16.h(7) and \"/usr/include/a.h\"\n \
                    a / b, //comment, half/2\n";
        assert_eq!(
            log(text, "/tmp/x"),
            "k/norm.cu(12): error: bad\n  see cuda_fp16.h(7) and \"a.h\"\n a / b, //comment, half/2"
        );
    }

    #[test]
    fn the_place_is_the_first_one_in_an_own_file() {
        let files = ["k/norm.cu".to_owned(), "k/row.cuh".to_owned()];
        let place = |text: &str| place(text, files.iter()).map(|place| (place.file, place.line));
        assert_eq!(
            place("cuda.h(3): error\nk/row.cuh(12): error\nnorm.cu(1): x"),
            Some(("k/row.cuh".to_owned(), 12))
        );
        assert_eq!(place("norm.cu:7:3: error"), Some(("k/norm.cu".to_owned(), 7)));
        assert_eq!(place("mynorm.cu(7): norm.cu is wrong"), None);
    }
}
