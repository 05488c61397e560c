//! The files that the outcome of an item depends on.
//!
//! Owns: the table. Never: reads a file for its digest; digest.rs does.
//!
//! A path that ends with `/` is a folder with all below it, `folder/*.rs` are the files of that folder alone, and any
//! other path is one file. `{}` is the item's name. Tests of Rust code count nowhere.

use std::path::Path;

use crate::expected;

/// Everything that builds, judges and times a kernel, and this part of CI.
const JUDGE: &[&str] = &[
    ".ci/",
    "Cargo.lock",
    "Cargo.toml",
    "kernel-builder/Cargo.toml",
    "kernel-builder/build.rs",
    "kernel-builder/harness/",
    "kernel-builder/length-search/Cargo.toml",
    "kernel-builder/length-search/src/",
    "kernel-builder/tensor-numbers/Cargo.toml",
    "kernel-builder/tensor-numbers/src/",
    "kernel-builder/kernel-plan/Cargo.toml",
    "kernel-builder/kernel-plan/src/",
    "kernel-builder/resources/",
    "kernel-builder/src/*.rs",
    "kernel-builder/src/base/",
    "kernel-builder/src/bench/",
    "kernel-builder/src/commands/",
    "kernel-builder/src/compile/",
    "kernel-builder/src/device/",
    "kernel-builder/src/pipeline/",
    "kernel-builder/src/scaffold/",
    "kernel-builder/src/selftest/",
    "kernel-builder/src/toolchain/",
    "kernel-builder/src/verify/",
    "rust-toolchain.toml",
    "variants.toml",
    "xtask/src/ci/",
    "xtask/src/repo.rs",
    "xtask/src/talk.rs",
];

/// The example that an item is, if it is one: other examples have the names of their templates.
const EXAMPLE: &str = "examples/{}/";

/// Further inputs of the items of a step.
const STEPS: &[(&str, &[&str])] = &[
    (
        "hub",
        &[
            "examples/rms-norm/",
            "kernel-builder/src/archive/",
            "kernel-builder/src/hub/",
            "kernel-builder/src/package/",
            "kernel-builder/src/publish/",
            "kernel-hub/Cargo.toml",
            "kernel-hub/src/",
        ],
    ),
    (
        "release",
        &[
            "kernel-builder/src/archive/",
            "kernel-builder/src/hub/",
            "kernel-builder/src/package/",
            "kernel-builder/src/publish/",
            "kernel-hub/Cargo.toml",
            "kernel-hub/src/",
            "templates/_shared/",
            "templates/rms-norm/",
            "tests/release/",
        ],
    ),
    ("tracing", &["templates/", "tests/tracing/"]),
    ("device-code", &[EXAMPLE, "templates/{}/", "templates/_shared/"]),
    (
        "rust",
        &["examples/rms-norm-device/", "examples/rust/", "kernel-builder/resources/rust/", "kernel-rust/"],
    ),
    (
        "generated",
        &[
            "kernel-builder/src/archive/",
            "kernel-builder/src/package/",
            "templates/{}/",
            "templates/_shared/",
        ],
    ),
    ("prove", &["examples/rms-norm/", "kernel-builder/src/package/"]),
    (
        "crosscheck",
        &["examples/rms-norm-strided/", "tests/crosscheck/", "xtask/src/copy.rs", "xtask/src/crosscheck.rs"],
    ),
    (
        "projects",
        &[
            "kernel-builder/src/package/",
            "tests/projects/{}/",
            "xtask/src/copy.rs",
            "xtask/src/expected.rs",
            "xtask/src/projects.rs",
        ],
    ),
    (
        "nix",
        &[
            ".cargo/",
            "examples/",
            "flake.lock",
            "flake.nix",
            "kernel-builder/src/",
            "kernel-hub/Cargo.toml",
            "kernel-hub/src/",
            "nix/",
            "tests/nix/",
            "xtask/Cargo.toml",
        ],
    ),
    (
        "cheats",
        &[
            "templates/_shared/",
            "templates/rms-norm-strided/",
            "tests/cheats/honest/{}/",
            "tests/cheats/projects/",
            "tests/cheats/{}/",
        ],
    ),
];

/// CI writes or reads these itself: they say how CI went, not what it does.
const NOT_COUNTED: &[&str] = &[".ci/budget.toml", ".ci/proven.toml"];

/// Whether a file is an input of every item.
pub(crate) fn is_common(path: &str) -> bool {
    JUDGE.iter().any(|pattern| fits(pattern, path))
}

/// Whether a file is never an input.
pub(crate) fn is_never(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    NOT_COUNTED.contains(&path) || name.ends_with("_tests.rs") || name == "tests.rs"
}

/// The paths of one item beside the common ones.
pub(crate) fn own(step: &str, item: &str, root: &Path) -> Vec<String> {
    let rows = STEPS.iter().filter(|(name, _)| *name == step).flat_map(|(_, patterns)| patterns.iter());
    // The same template, with another framework.
    let subject = if item == super::generated::FOR_TVM_FFI { super::generated::TVM_TEMPLATE } else { item };
    let rows = rows.filter(|pattern| **pattern != EXAMPLE || super::device_code::is_example(item));
    let mut paths: Vec<String> = rows.map(|pattern| pattern.replace("{}", subject)).collect();
    if step == "projects" {
        let projects = expected::read_all(&root.join("tests/projects")).unwrap_or_default();
        let runs = projects.iter().filter(|project| project.name == item).flat_map(|project| &project.runs);
        paths.extend(runs.filter_map(|run| Some(format!("tests/projects/{}/", run.beside.as_ref()?))));
    }
    paths
}

/// Whether a path of the table covers a file.
pub(crate) fn fits(pattern: &str, path: &str) -> bool {
    if let Some(folder) = pattern.strip_suffix("*.rs") {
        return path.strip_prefix(folder).is_some_and(|name| !name.contains('/') && name.ends_with(".rs"));
    }
    if pattern.ends_with('/') { path.starts_with(pattern) } else { path == pattern }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::steps;
    use crate::repo;

    #[test]
    fn folders_files_and_the_files_of_one_folder() {
        assert!(fits("nix/", "nix/lib.nix") && !fits("nix/", "nixpkgs"));
        assert!(fits("a/*.rs", "a/b.rs") && !fits("a/*.rs", "a/b/c.rs") && !fits("a/*.rs", "a/b.toml"));
        assert!(fits("Cargo.toml", "Cargo.toml") && !fits("Cargo.toml", "fuzz/Cargo.toml"));
        assert!(is_never("a/numbers_tests.rs") && is_never(".ci/proven.toml") && !is_never(".ci/run"));
    }

    #[test]
    fn every_path_of_the_table_covers_a_file() {
        let root = repo::root();
        let files = repo::files(&root).unwrap();
        let files: Vec<&str> = files.iter().filter_map(|path| path.to_str()).collect();
        let covers = |pattern: &str| files.iter().any(|path| fits(pattern, path));
        let rows = STEPS.iter().flat_map(|(_, patterns)| patterns.iter()).chain(JUDGE);
        for pattern in rows.filter(|pattern| !pattern.contains("{}")) {
            assert!(covers(pattern), "{pattern} covers no file");
        }
        // At least one row with the item's name covers something for each item.
        for step in steps::STEPS.iter().filter(|step| step.turn.is_some()) {
            let named = STEPS.iter().find(|(name, _)| *name == step.name).map(|(_, patterns)| *patterns);
            let named = named.unwrap_or_else(|| panic!("{} has no row", step.name));
            let common: Vec<&&str> = named.iter().filter(|pattern| !pattern.contains("{}")).collect();
            for item in steps::items(step, &root).unwrap() {
                let own = own(step.name, &item, &root);
                let mut special = own.iter().filter(|path| !common.iter().any(|row| **row == path.as_str()));
                let single = item == step.name;
                assert!(single || special.any(|path| covers(path)), "{} {item} has no files", step.name);
            }
        }
    }

    #[test]
    fn a_project_counts_the_one_beside_it() {
        let own = own("projects", "twin-right", &repo::root());
        assert!(own.contains(&"tests/projects/twin-left/".to_owned()), "{own:?}");
    }
}
