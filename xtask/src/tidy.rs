//! `cargo xtask tidy`: the repository's rules as code. Also a test, so that nobody has to remember it.
//!
//! Owns: the list of rules. Never: changes a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::repo;

mod builds;
mod codes;
mod docs;
mod text;

/// The repository as the rules see it: every text file with its content.
pub(crate) struct Repository {
    /// Where it lies.
    pub(crate) root: PathBuf,
    /// Path from the root and content, sorted by path; files that are not UTF-8 are left out.
    pub(crate) files: Vec<(PathBuf, String)>,
}

impl Repository {
    fn read(root: &Path) -> Result<Self, String> {
        let read = |path: PathBuf| Some((path.clone(), std::fs::read_to_string(root.join(path)).ok()?));
        Ok(Self { root: root.to_owned(), files: repo::files(root)?.into_iter().filter_map(read).collect() })
    }

    /// The content of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|(there, _)| there == Path::new(path)).map(|(_, text)| text.as_str())
    }

    /// The files whose name ends with one of `endings`.
    pub(crate) fn with_ending(&self, endings: &[&str]) -> impl Iterator<Item = (&Path, &str)> {
        let wanted =
            |path: &Path| endings.iter().any(|ending| path.extension().is_some_and(|there| there == *ending));
        self.files
            .iter()
            .filter(move |(path, _)| wanted(path))
            .map(|(path, text)| (path.as_path(), text.as_str()))
    }
}

/// A rule: everything that breaks it, as `path:line: what to do`.
type Rule = fn(&Repository) -> Vec<String>;

const RULES: &[Rule] = &[
    text::headers,
    text::length,
    text::marks,
    text::allowed_with_a_reason,
    text::whitespace,
    text::places_of_this_machine,
    text::unreviewed_snapshots,
    text::no_code_runs_from_a_comment,
    builds::features_are_the_same_without_tests,
    codes::every_code_is_documented,
    codes::cheats_are_refused_by_name,
    docs::commands_exist,
    docs::links_resolve,
    docs::anchors_exist,
    docs::readme_is_short,
    docs::decisions_are_listed,
];

/// Every rule on the whole repository.
pub(crate) fn check() -> Result<(), String> {
    let repository = Repository::read(&repo::root())?;
    let problems: Vec<String> = RULES.iter().flat_map(|rule| rule(&repository)).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// The task.
pub(crate) fn run() -> ExitCode {
    match check() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problems) => {
            eprintln!("{problems}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository of one file.
    pub(crate) fn one(path: &str, text: &str) -> Repository {
        Repository { root: PathBuf::from("."), files: vec![(PathBuf::from(path), text.to_owned())] }
    }

    #[test]
    fn the_repository_is_tidy() {
        if let Err(problems) = check() {
            panic!("\n{problems}\n");
        }
    }
}
