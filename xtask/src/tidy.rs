//! `cargo xtask tidy`: the repository's rules as code. Also a test, so that nobody has to remember it.
//!
//! Owns: the list of rules. Never: changes a file.

use std::process::ExitCode;

use crate::repo;
use repository::Repository;

mod builds;
mod causes;
mod circles;
mod codes;
mod copies;
mod docs;
mod jobs;
mod layers;
mod modules;
mod names;
mod repository;
mod rust_source;
mod text;

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
    causes::errors_keep_their_cause,
    codes::every_code_is_documented,
    codes::cheats_are_refused_by_name,
    circles::no_files_use_each_other,
    copies::no_device_function_is_copied,
    layers::stages_use_those_below,
    jobs::jobs_have_types,
    names::functions_can_be_searched_for,
    docs::commands_exist,
    docs::named_commands_exist,
    docs::links_resolve,
    docs::anchors_exist,
    docs::readme_is_short,
    docs::architecture_is_short,
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

    #[test]
    fn the_repository_is_tidy() {
        if let Err(problems) = check() {
            panic!("\n{problems}\n");
        }
    }
}
