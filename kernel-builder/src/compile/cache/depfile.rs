//! Dependency files, as GCC, Clang and nvcc write them (`-MD -MF`): the syntax of make, with escaped blanks.
//!
//! Owns: reading them. Never: opens one.

use std::path::PathBuf;

/// The prerequisites of the first rule, sorted, each once.
pub fn parse(text: &str) -> Vec<PathBuf> {
    let joined = text.replace("\\\n", " ");
    let Some((_, prerequisites)) = joined.split_once(": ") else { return Vec::new() };
    let mut paths = Vec::new();
    let mut current = String::new();
    let mut letters = prerequisites.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if matches!(letters.peek(), Some(' ' | '#' | '\\')) => current.extend(letters.next()),
            '$' if letters.peek() == Some(&'$') => current.extend(letters.next()),
            // A second rule begins after the first line (`-MP`); the first one holds every file.
            '\n' => break,
            blank if blank.is_whitespace() => {
                if !current.is_empty() {
                    paths.push(PathBuf::from(std::mem::take(&mut current)));
                }
            }
            other => current.push(other),
        }
    }
    if !current.is_empty() {
        paths.push(PathBuf::from(current));
    }
    paths.sort();
    paths.dedup();
    paths
}
