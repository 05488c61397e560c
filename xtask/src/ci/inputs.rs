//! The files that an item is about: a change of one makes `.ci/run` run the item.
//!
//! Owns: the table. Never: reads a file for its digest; digest.rs does.
//!
//! The whole program takes part in most items. Were all of it listed, nearly every commit would run everything, for an
//! hour. So a row has what the item tests directly, and what is behind that is covered by the rotation (proven.rs) and by
//! `.ci/full`.
//!
//! A path that ends with `/` is a folder with all below it, `folder/*.rs` are the files of that folder alone, `!path` takes
//! out what another one covers, and any other path is one file. `{}` is the item's name. Tests of Rust code count nowhere.

use std::path::Path;

use crate::expected;

/// What every item is about.
const COMMON: &[&str] = &["rust-toolchain.toml", "variants.toml"];

/// The example that an item is, if it is one: other examples have the names of their templates.
const EXAMPLE: &str = "examples/{}/";

/// What the items of a step are about.
const STEPS: &[(&str, &[&str])] = &[
    (
        "fuzz",
        &[
            "fuzz/",
            "kernel-builder/kernel-plan/src/lib.rs",
            "kernel-hub/src/lib.rs",
            "xtask/src/ci/checks.rs",
        ],
    ),
    ("harness", &["kernel-builder/harness/", "xtask/src/ci/checks.rs"]),
    (
        "pages",
        &[
            "bench/page_picture.py",
            "bench/results/2026-11-25-h200-rows.jsonl",
            "bench/results/2026-11-27-h100-e2e.jsonl",
            "bench/results/2026-11-28-h200-e2e.jsonl",
            "docs/images/model.png",
            "docs/images/report.png",
            "docs/site.css",
            "docs/site_hooks.py",
            "kernel-builder/resources/report/",
            "kernel-builder/src/bench/report/",
            "mkdocs.yml",
            "tests/pages/",
            "xtask/src/ci/pages.rs",
        ],
    ),
    ("documents", &["docs/tutorials/{}.md", "tests/documents/", "xtask/src/ci/documents.rs", "{}.md"]),
    (
        "agents",
        &[
            "kernel-builder/resources/agents/",
            "kernel-builder/src/agent/program.rs",
            "kernel-builder/src/mcp/",
            "kernel-builder/src/pipeline/candidates/",
            "kernel-builder/tests/it/real_agents.rs",
            "tests/agents/",
            "xtask/src/agents.rs",
        ],
    ),
    (
        "tracing",
        &[
            "kernel-builder/harness/attempts.py",
            "kernel-builder/harness/bounds.py",
            "kernel-builder/harness/calls.py",
            "kernel-builder/harness/exported.py",
            "kernel-builder/harness/subject.py",
            "kernel-builder/harness/trace.py",
            "kernel-builder/src/pipeline/create/tracing.rs",
            "kernel-builder/src/pipeline/create/tracing_tests.rs",
            "kernel-builder/src/scaffold/*.rs",
            "templates/",
            "tests/tracing/",
        ],
    ),
    (
        "translation",
        &[
            "kernel-builder/harness/bounds.py",
            "kernel-builder/harness/derivatives.py",
            "kernel-builder/harness/dropout.py",
            "kernel-builder/harness/exported.py",
            "kernel-builder/harness/gradients.py",
            "kernel-builder/harness/translation.py",
            "kernel-builder/kernel-plan/src/translate/",
            "tests/translation/",
            "xtask/src/ci/translation.rs",
        ],
    ),
    (
        "hub",
        &[
            ".ci/hub",
            "examples/rms-norm/",
            "kernel-builder/src/hub/",
            "kernel-builder/src/publish/",
            "kernel-hub/Cargo.toml",
            "kernel-hub/src/",
        ],
    ),
    (
        "release",
        &[
            ".ci/release",
            "kernel-builder/resources/",
            "kernel-builder/src/publish/",
            "kernel-builder/src/scaffold/ci.rs",
            "templates/rms-norm/",
            "tests/release/",
        ],
    ),
    (
        "device-code",
        &[
            EXAMPLE,
            "kernel-builder/src/compile/nvrtc/",
            "templates/{}/",
            "templates/_shared/",
            "xtask/src/ci/device_code.rs",
        ],
    ),
    (
        "rust",
        &[
            "examples/rms-norm-device/",
            "examples/rms-norm/",
            "examples/rust/",
            "examples/softmax/",
            "examples/swiglu/",
            "kernel-builder/resources/rust/",
            "kernel-rust/",
            "templates/_shared/",
            "templates/row-sum/",
        ],
    ),
    (
        "generated",
        &[
            "kernel-builder/kernel-plan/src/host/",
            "kernel-builder/src/scaffold/host/",
            "templates/{}/",
            "templates/_shared/",
            "xtask/src/ci/generated.rs",
        ],
    ),
    (
        "prove",
        &[
            "examples/rms-norm/",
            "kernel-builder/src/compile/link.rs",
            "kernel-builder/src/package/",
            "kernel-builder/src/pipeline/ship/",
            "xtask/src/ci/prove.rs",
        ],
    ),
    (
        "crosscheck",
        &[
            "examples/rms-norm-strided/",
            "kernel-builder/kernel-plan/src/steps/",
            "tests/crosscheck/",
            "xtask/src/copy.rs",
            "xtask/src/crosscheck.rs",
        ],
    ),
    (
        "projects",
        &[
            "kernel-builder/kernel-plan/src/backend/",
            "kernel-builder/src/compile/*.rs",
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
            ".ci/nix",
            "Cargo.lock",
            "Cargo.toml",
            "flake.lock",
            "flake.nix",
            "kernel-builder/Cargo.toml",
            "kernel-builder/build.rs",
            "kernel-hub/Cargo.toml",
            "nix/",
            "tests/nix/",
            "xtask/Cargo.toml",
        ],
    ),
    (
        "cheats",
        &[
            // All that judges and times: a change of it must meet every cheat.
            "kernel-builder/harness/",
            "!kernel-builder/harness/attempts.py",
            "!kernel-builder/harness/bounds.py",
            "!kernel-builder/harness/derivatives.py",
            "!kernel-builder/harness/dropout.py",
            "!kernel-builder/harness/exported.py",
            "!kernel-builder/harness/first_use.py",
            "!kernel-builder/harness/gradients.py",
            "!kernel-builder/harness/hipify.py",
            "!kernel-builder/harness/tests/",
            "!kernel-builder/harness/trace.py",
            "!kernel-builder/harness/translation.py",
            "kernel-builder/src/bench/",
            "kernel-builder/src/protocol/",
            "kernel-builder/src/selftest/",
            "kernel-builder/src/verify/",
            "kernel-builder/tensor-numbers/src/",
            "templates/rms-norm-strided/",
            "tests/cheats/honest/{}/",
            "tests/cheats/projects/",
            "tests/cheats/{}/",
        ],
    ),
];

/// CI writes or reads these itself: they say how CI went, not what it does.
const NOT_COUNTED: &[&str] = &[".ci/budget.toml", ".ci/proven.toml"];

/// Whether a file is among these paths, or one that every item is about.
pub(crate) fn covers(own: &[String], path: &str) -> bool {
    let is_out = |pattern: &String| pattern.strip_prefix('!').is_some_and(|rest| fits(rest, path));
    let common = || COMMON.iter().any(|pattern| fits(pattern, path));
    (own.iter().any(|pattern| fits(pattern, path)) && !own.iter().any(is_out)) || common()
}

/// Whether a file is never an input.
pub(crate) fn is_never(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    NOT_COUNTED.contains(&path) || name.ends_with("_tests.rs") || name == "tests.rs"
}

/// What one item is about, beside the common paths.
pub(crate) fn item_inputs(step: &str, item: &str, root: &Path) -> Vec<String> {
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
        let rows = STEPS.iter().flat_map(|(_, patterns)| patterns.iter()).chain(COMMON);
        for pattern in rows.filter(|pattern| !pattern.contains("{}")) {
            assert!(covers(pattern.trim_start_matches('!')), "{pattern} covers no file");
        }
        // At least one row with the item's name covers something for each item.
        for step in steps::STEPS.iter().filter(|step| step.turn.is_some()) {
            let named = STEPS.iter().find(|(name, _)| *name == step.name).map(|(_, patterns)| *patterns);
            let named = named.unwrap_or_else(|| panic!("{} has no row", step.name));
            let common: Vec<&&str> = named.iter().filter(|pattern| !pattern.contains("{}")).collect();
            for item in steps::items(step, &root).unwrap() {
                let own = item_inputs(step.name, &item, &root);
                let mut special = own.iter().filter(|path| !common.iter().any(|row| **row == path.as_str()));
                let single = item == step.name;
                assert!(single || special.any(|path| covers(path)), "{} {item} has no files", step.name);
            }
        }
    }

    #[test]
    fn the_judge_is_an_input_of_every_cheat_and_what_traces_is_not() {
        let own = item_inputs("cheats", "skips-tail", &repo::root());
        let is_input = |path: &str| super::covers(&own, path);
        assert!(
            is_input("kernel-builder/harness/oracle.py") && is_input("tests/cheats/skips-tail/cheat.toml")
        );
        assert!(is_input("kernel-builder/src/verify/mod.rs") && is_input("variants.toml"));
        assert!(
            !is_input("kernel-builder/harness/trace.py") && !is_input("tests/cheats/truncates/cheat.toml")
        );
        assert!(!is_input("kernel-builder/harness/tests/test_values.py"));
    }

    #[test]
    fn a_project_counts_the_one_beside_it() {
        let own = item_inputs("projects", "twin-right", &repo::root());
        assert!(own.contains(&"tests/projects/twin-left/".to_owned()), "{own:?}");
    }
}
