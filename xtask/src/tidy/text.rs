//! Rules on the text of single files.
//!
//! Owns: headers, lengths, left-over marks, whitespace, names of machines. Never: looks at two files at a time.

use std::path::Path;

use super::repository::Repository;

const RUST: &[&str] = &["rs"];
const CODE: &[&str] = &["rs", "py", "cu", "cuh", "cpp", "h", "nix"];
const LONGEST: usize = 800;

/// Every Rust file says what it is: it begins with `//!`.
pub(super) fn headers(repository: &Repository) -> Vec<String> {
    repository
        .with_ending(RUST)
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| {
            format!("{}:1: begin with `//!`: what the file owns and what it never does", path.display())
        })
        .collect()
}

/// No source is longer than what a person reads in one sitting.
pub(super) fn length(repository: &Repository) -> Vec<String> {
    repository
        .with_ending(CODE)
        .filter_map(|(path, text)| {
            let lines = text.lines().count();
            (lines > LONGEST)
                .then(|| format!("{}: {lines} lines; split it, {LONGEST} are the most", path.display()))
        })
        .collect()
}

/// What is left to do is an issue, not a comment.
pub(super) fn marks(repository: &Repository) -> Vec<String> {
    // In two halves, so that this file does not break its own rule.
    const MARKS: &[&str] =
        &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("db", "g!("), concat!("to", "do!(")];
    let files = repository.with_ending(CODE);
    files.flat_map(|(path, text)| lines_with(path, text, MARKS, "finish it, or open an issue")).collect()
}

/// A lint is expected, or allowed with its reason in the attribute.
pub(super) fn allowed_with_a_reason(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in repository.with_ending(RUST) {
        for opening in [concat!("#[al", "low("), concat!("#![al", "low(")] {
            for (at, _) in text.match_indices(opening) {
                let attribute = text[at..].split_once(")]").map_or("", |(attribute, _)| attribute);
                if !attribute.contains("reason") {
                    let line = text[..at].matches('\n').count() + 1;
                    found.push(format!("{}:{line}: write `#[expect(.., reason = \"..\")]`", path.display()));
                }
            }
        }
    }
    found
}

/// Unix line ends, no blanks before them, one newline at the end of a file.
pub(super) fn whitespace(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in &repository.files {
        // What a program printed is kept as it was printed, and a fixture may be about its white space.
        let kept = path.extension().is_some_and(|ending| ending == "snap")
            || path.components().any(|part| part.as_os_str() == "err");
        if kept || text.is_empty() {
            continue;
        }
        for (number, line) in text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                found.push(format!(
                    "{}:{}: remove the blanks at the end of the line",
                    path.display(),
                    number + 1
                ));
            }
        }
        if !text.ends_with('\n') || text.ends_with("\n\n") {
            found.push(format!("{}: end the file with one newline", path.display()));
        }
    }
    found
}

/// Nothing names the machine that it was written on, or the host of a package index: pip knows its index, and in many
/// places it is another one.
pub(super) fn places_of_this_machine(repository: &Repository) -> Vec<String> {
    const PLACES: &[&str] = &[
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/opt/", "kw"),
        concat!("/tmp/", "kw"),
        concat!("pypi", ".org"),
        concat!("python", "hosted"),
        concat!("download.py", "torch"),
    ];
    let files = repository.files.iter().filter(|(path, _)| path != Path::new("Cargo.lock"));
    files.flat_map(|(path, text)| lines_with(path, text, PLACES, "name no machine and no index")).collect()
}

/// A snapshot that nobody has accepted.
pub(super) fn unreviewed_snapshots(repository: &Repository) -> Vec<String> {
    let new = |path: &Path| {
        path.to_string_lossy().ends_with(".snap.new") || path.extension().is_some_and(|e| e == "pending-snap")
    };
    let files = repository.files.iter().filter(|(path, _)| new(path));
    files
        .map(|(path, _)| format!("{}: review it (cargo insta review) or remove it", path.display()))
        .collect()
}

/// No documentation comment has code that rustdoc would run: `cargo xtask test` runs no doc tests. A block says its
/// language, as in "```text".
pub(super) fn no_code_runs_from_a_comment(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in repository.with_ending(RUST) {
        let mut in_block = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
                in_block = false;
                continue;
            };
            let runs = match comment.trim_start().strip_prefix("```") {
                Some(language) => {
                    in_block = !in_block;
                    in_block
                        && !matches!(language.trim(), "text" | "toml" | "json" | "console" | "cpp" | "python")
                }
                // Four blanks after the customary one are a block of Rust, too, where a paragraph begins.
                None => !in_block && comment.starts_with("     ") && is_blank_comment(text, number),
            };
            if runs {
                found.push(format!(
                    "{}:{}: write the code as a test, or begin the block with ```text",
                    path.display(),
                    number + 1
                ));
            }
        }
    }
    found
}

/// Whether the line before this one is a comment without text.
fn is_blank_comment(text: &str, number: usize) -> bool {
    let before = number.checked_sub(1).and_then(|before| text.lines().nth(before));
    before.is_some_and(|line| matches!(line.trim(), "///" | "//!"))
}

fn lines_with(path: &Path, text: &str, marks: &[&str], advice: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for mark in marks.iter().filter(|mark| line.contains(*mark)) {
            found.push(format!("{}:{}: `{mark}`: {advice}", path.display(), number + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::repository::tests::one;
    use super::*;

    #[test]
    fn each_rule_finds_its_sin_and_names_the_line() {
        let marks_text = concat!("//! x\n// TO", "DO\n");
        assert_eq!(marks(&one("a.rs", marks_text)).len(), 1);
        assert!(marks(&one("a.rs", marks_text))[0].starts_with("a.rs:2: "));
        assert_eq!(headers(&one("a.rs", "fn a() {}\n")).len(), 1);
        assert_eq!(length(&one("a.cu", &"x\n".repeat(LONGEST + 1))).len(), 1);
        assert_eq!(whitespace(&one("a.md", "a \nb")).len(), 2);
        assert_eq!(places_of_this_machine(&one("a.toml", concat!("a = \"/ro", "ot/x\"\n"))).len(), 1);
        assert_eq!(unreviewed_snapshots(&one("a.snap.new", "")).len(), 1);
    }

    #[test]
    fn code_in_a_comment_says_that_it_is_text() {
        let found = |text: &str| no_code_runs_from_a_comment(&one("a.rs", text)).len();
        assert_eq!(found("//! x\n//! ```text\n//!     y\n//! ```\n"), 0);
        assert_eq!(found("//! x\n//! ```\n//! y\n//! ```\n"), 1);
        assert_eq!(found("/// x\n///\n///     y\nfn a() {}\n"), 1);
    }

    #[test]
    fn a_reason_makes_an_attribute_fine() {
        let bare = concat!("#[al", "low(dead_code)]");
        let with = concat!("#[al", "low(dead_code, reason = \"x\")]");
        assert_eq!(allowed_with_a_reason(&one("a.rs", bare)).len(), 1);
        assert!(allowed_with_a_reason(&one("a.rs", with)).is_empty());
    }
}
