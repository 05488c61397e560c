//! The corpus of build.toml files in tests/spec/corpus, each read by the official parser and by ours.

use std::path::{Path, PathBuf};

use super::super::sandbox::Sandbox;
use super::{Official, difference, ours};

/// What we refuse and the official parser accepts: the files, and the one code that each is refused with.
/// Those of `BY_RULES` are read and then refused by a rule of `check`.
const OURS_ALONE: &[(&str, &str)] = &[
    ("ours-backends-empty", "spec::empty_list"),
    ("ours-bound-with-space", "spec::bad_value"),
    ("ours-bound-with-zero-in-front", "spec::bad_value"),
    ("ours-cuda-range-empty", "spec::empty_range"),
    ("ours-hub-branch-with-space", "spec::bad_value"),
    ("ours-hub-repo-id-is-an-address", "spec::hub_repo_id"),
    ("ours-hub-repo-id-is-empty", "spec::hub_repo_id"),
    ("ours-hub-repo-id-without-owner", "spec::hub_repo_id"),
    ("ours-kernel-capability", "spec::bad_capability"),
    ("ours-kernel-depends-repo-id", "spec::hub_repo_id"),
    ("ours-kernel-depends-revision", "spec::bad_value"),
    ("ours-kernel-depends-revision-empty", "spec::bad_value"),
    ("ours-kernel-name", "spec::section_name"),
    ("ours-kernel-name-empty", "spec::section_name"),
    ("ours-kernel-rocm-arch", "spec::bad_rocm_arch"),
    ("ours-kernel-src-empty", "spec::empty_list"),
    ("ours-kernel-src-outside", "spec::source_outside"),
    ("ours-license-blank", "spec::empty_license"),
    ("ours-license-empty", "spec::empty_license"),
    ("ours-license-of-two-lines", "spec::empty_license"),
    ("ours-noarch-capability", "spec::bad_capability"),
    ("ours-noarch-rocm-arch", "spec::bad_rocm_arch"),
    ("ours-python-depends-for-neuron", "spec::python_depends"),
    ("ours-python-depends-unknown", "spec::python_depends"),
    ("ours-table-as-list", "spec::wrong_type"),
    ("ours-torch-include-absolute", "spec::source_outside"),
    ("ours-torch-pyext-pattern", "spec::bad_value"),
    ("ours-torch-pyext-with-dot", "spec::bad_value"),
    ("ours-torch-range-empty", "spec::empty_range"),
    ("ours-torch-src-outside", "spec::source_outside"),
    ("ours-tvm-ffi-src-empty", "spec::empty_list"),
    ("ours-upstream-not-ascii", "spec::bad_value"),
    ("ours-upstream-with-space", "spec::bad_value"),
    ("ours-upstream-without-slashes", "spec::bad_value"),
];

/// Read without an error, and refused by a rule that looks at several values.
const BY_RULES: &[(&str, &str)] = &[
    ("ours-backends-twice", "spec::duplicate_backend"),
    ("ours-kernel-for-an-undeclared-backend", "spec::undeclared_backend"),
    ("ours-python-depends-for-tpu", "spec::python_depends"),
    ("ours-python-depends-general-for-xpu", "spec::python_depends"),
    ("ours-python-depends-of-cuda-for-all", "spec::python_depends"),
];

/// The files of a folder of the corpus: name without ending, and text, sorted.
pub(super) fn files(folder: &str) -> Vec<(String, String)> {
    let place: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/spec/corpus").join(folder);
    let entries = std::fs::read_dir(place).expect("the corpus is there");
    let mut files: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("a readable entry").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name in UTF-8").to_owned();
            (name, std::fs::read_to_string(path).expect("a readable file"))
        })
        .collect();
    files.sort();
    files
}

fn code_of(list: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    list.iter().find(|(file, _)| *file == name).map(|(_, code)| *code)
}

#[test]
fn the_corpus_is_what_its_folders_say() {
    let (valid, invalid) = (files("valid"), files("invalid"));
    assert!(valid.len() >= 50 && invalid.len() >= 100, "{} and {} files", valid.len(), invalid.len());
    for (name, text) in &valid {
        assert!(ours(text).is_ok(), "{name}: {:?}", ours(text));
    }
    for (name, text) in &invalid {
        let codes: Vec<_> = ours(text).err().into_iter().flatten().map(|(code, _)| code).collect();
        match code_of(OURS_ALONE, name) {
            Some(code) => assert_eq!(codes, [code], "{name}"),
            None => assert_eq!(codes.is_empty(), code_of(BY_RULES, name).is_some(), "{name}: {codes:?}"),
        }
    }
    let listed = OURS_ALONE.iter().chain(BY_RULES).map(|(name, _)| name.to_string());
    let mut listed: Vec<_> = listed.collect();
    listed.sort();
    let there: Vec<_> =
        invalid.iter().map(|(name, _)| name.clone()).filter(|name| name.starts_with("ours-")).collect();
    assert_eq!(listed, there, "the lists above and the files");
}

#[test]
fn what_only_a_rule_refuses_is_refused_by_check() {
    let sandbox = Sandbox::new();
    for (name, text) in files("invalid") {
        let Some(code) = code_of(BY_RULES, &name) else { continue };
        sandbox.write(&format!("work/{name}/build.toml"), &text);
        for source in ["norm_cuda/norm.cu", "torch-ext/torch_binding.cpp", "torch-ext/torch_binding.h"] {
            sandbox.write(&format!("work/{name}/{source}"), "// Nothing.\n");
        }
        let checked = sandbox.run(&["check", &name, "--message-format", "json"]);
        let result = checked.event("result");
        let problems = result["problems"].as_array().expect("a list");
        let found = problems.iter().any(|problem| problem["code"] == code && problem["severity"] == "error");
        assert!(found && checked.code == 10, "{name}: {problems:?}");
    }
}

#[test]
fn the_official_parser_agrees_on_the_corpus() {
    let Some(mut official) = Official::start() else { return };
    let mut differences = Vec::new();
    for folder in ["valid", "invalid"] {
        for (name, text) in files(folder) {
            let is_ours = code_of(OURS_ALONE, &name).or(code_of(BY_RULES, &name));
            let accepted = official.read(&text).is_ok();
            if accepted != (folder == "valid" || is_ours.is_some()) {
                differences.push(format!("{folder}/{name}: the official parser accepts it: {accepted}"));
            }
            let named: Vec<_> = is_ours.into_iter().collect();
            if let Some(difference) = difference(&mut official, &text, &named) {
                differences.push(format!("{folder}/{name}: {difference}"));
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
