//! Every diagnostic code has a fixture that shows it, and every fixture has a snapshot.
//!
//! A fixture is a project in `tests/<stage>/err/<code>/`, or `<code>-<what>/` for another way to get the same code.
//! The snapshots of `spec` are what `kernelwright check tests/spec/err/<fixture>` prints, started at the repository's
//! root; a test of kernel-builder compares the program with the same files.
#![expect(clippy::disallowed_methods, reason = "the fixtures are files of the repository")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel_plan::diagnostic::summary;
use kernel_plan::{spec, variant};

use crate::project;

const STAGES: [(&str, &[&str]); 2] = [("spec", spec::codes::CODES), ("variant", variant::codes::CODES)];

fn folder(stage: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(stage).join("err")
}

/// The fixtures of a stage with their names, sorted.
fn fixtures(stage: &str) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(folder(stage)).expect("the folder of fixtures is there");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let mut fixtures: Vec<_> = paths
        .filter(|path| path.is_dir())
        .map(|path| (path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned(), path))
        .collect();
    fixtures.sort();
    fixtures
}

/// A code without its stage, as fixtures are named.
fn bare(code: &str) -> &str {
    code.rsplit("::").next().expect("a code has a stage and a name")
}

/// The code that a fixture is for.
fn shown(name: &str) -> &str {
    name.split('-').next().expect("a first part")
}

#[test]
fn every_fixture_shows_its_code() {
    for (stage, _) in STAGES {
        insta::with_settings!({ snapshot_path => folder(stage), prepend_module_to_snapshot => false, omit_expression => true }, {
            for (name, path) in fixtures(stage) {
                let problems = project::read_folder(&path, &format!("tests/{stage}/err/{name}")).problems;
                assert!(
                    problems.iter().any(|problem| problem.code == format!("{stage}::{}", shown(&name))),
                    "{name} does not show `{stage}::{}`:\n{}",
                    shown(&name),
                    project::render(&problems)
                );
                let text = format!("{}\n{}", project::render(&problems), summary(&problems));
                insta::assert_snapshot!(name.as_str(), text);
            }
        });
    }
}

#[test]
fn codes_and_fixtures_are_the_same_set() {
    for (stage, all) in STAGES {
        let codes: BTreeSet<_> = all.iter().map(|code| bare(code).to_owned()).collect();
        assert_eq!(codes.len(), all.len(), "two codes of {stage} have the same name");
        let shown: BTreeSet<_> = fixtures(stage).iter().map(|(name, _)| shown(name).to_owned()).collect();
        assert_eq!(codes, shown, "the codes of {stage} and its fixtures");
    }
}

#[test]
fn every_problem_says_what_to_do() {
    for (name, path) in STAGES.iter().flat_map(|(stage, _)| fixtures(stage)) {
        for problem in project::read_folder(&path, &name).problems {
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
