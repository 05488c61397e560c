//! Every diagnostic code has a fixture that shows it, and every fixture has a snapshot.
//!
//! A fixture is `spec/err/<code>.toml`, or `<code>-<what>.toml` for another way to get the same code.
#![expect(clippy::disallowed_methods, reason = "the fixtures are files beside the tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel_plan::{spec, variant};

use crate::project;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec/err")
}

/// The names of the fixtures, sorted.
fn fixtures() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder of fixtures is there");
    let names =
        entries.map(|entry| entry.expect("a readable entry").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<_> = names.filter_map(|name| name.strip_suffix(".toml").map(str::to_owned)).collect();
    names.sort();
    names
}

/// A code without its stage, as fixtures are named.
fn bare(code: &str) -> &str {
    code.rsplit("::").next().expect("a code has a stage and a name")
}

#[test]
fn every_fixture_shows_its_code() {
    insta::with_settings!({ snapshot_path => folder(), prepend_module_to_snapshot => false, omit_expression => true }, {
        for name in fixtures() {
            let text = std::fs::read_to_string(folder().join(format!("{name}.toml"))).expect("a readable fixture");
            let problems = project::read(&text).problems;
            let code = name.split('-').next().expect("a first part");
            assert!(
                problems.iter().any(|problem| bare(problem.code) == code),
                "{name}.toml does not show `{code}`:\n{}",
                project::render(&problems)
            );
            insta::assert_snapshot!(name.as_str(), project::render(&problems));
        }
    });
}

#[test]
fn codes_and_fixtures_are_the_same_set() {
    let codes: BTreeSet<_> =
        spec::codes::CODES.iter().chain(variant::codes::CODES).map(|code| bare(code).to_owned()).collect();
    let shown: BTreeSet<_> =
        fixtures().iter().map(|name| name.split('-').next().expect("a first part").to_owned()).collect();
    let all = spec::codes::CODES.len() + variant::codes::CODES.len();
    assert_eq!(codes.len(), all, "two codes have the same name");
    assert_eq!(codes, shown);
}

#[test]
fn every_problem_says_what_to_do() {
    for name in fixtures() {
        let text =
            std::fs::read_to_string(folder().join(format!("{name}.toml"))).expect("a readable fixture");
        for problem in project::read(&text).problems {
            assert!(problem.help.is_some(), "{name}: `{problem}` has no help");
            assert!(!problem.labels.is_empty(), "{name}: `{problem}` has no place");
            assert!(!problem.message.ends_with('.'), "{name}: `{problem}` ends with a full stop");
            assert!(
                !problem.message.starts_with(char::is_uppercase),
                "{name}: `{problem}` starts upper-case"
            );
        }
    }
}
