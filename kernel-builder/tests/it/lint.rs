//! `lint` on the tasks of tests/lint, which need a Python with torch; and what it says where there is no task.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::sandbox::{Sandbox, finish};

/// A cache with a managed Python; its packages alone are used.
const CACHE: &str = "KERNELWRIGHT_TORCH_CACHE";

fn tasks() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/lint")
}

/// The strings of a list in `lint.toml`.
fn listed(text: &str, key: &str) -> Vec<String> {
    let found = text.split_once(&format!("{key} = ["));
    let list = found.and_then(|(_, rest)| rest.split_once(']')).map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_task_has_the_findings_that_it_must_have() {
    let Some(cache) = std::env::var_os(CACHE) else {
        eprintln!("skipped: {CACHE} names no cache with a managed Python");
        return;
    };
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("cache")).expect("a new folder");
    std::os::unix::fs::symlink(Path::new(&cache).join("python"), sandbox.path("cache/python"))
        .expect("a link");
    let mut seen = 0;
    for entry in std::fs::read_dir(tasks()).expect("the folder of tasks").flatten() {
        let (task, name) = (entry.path(), entry.file_name());
        let wanted = std::fs::read_to_string(task.join("lint.toml")).expect("what must be found");
        let linted = finish(
            sandbox
                .command(&["lint", "--message-format", "json"])
                .arg(&task)
                .env_remove("KERNELWRIGHT_PYTHON"),
        );
        assert_eq!(linted.code, 0, "{name:?}\n{}\n{}", linted.stdout, linted.stderr);
        let result = linted.event("result");
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let findings = result["findings"].as_array().expect("a list").iter();
        let mut findings: Vec<String> =
            findings.map(|found| format!("{} {}", text(&found["code"]), text(&found["about"]))).collect();
        findings.sort();
        assert_eq!(findings, listed(&wanted, "findings"), "{name:?}");
        let relations: Vec<String> =
            result["relations"].as_array().expect("a list").iter().map(text).collect();
        for relation in listed(&wanted, "relations") {
            assert!(relations.contains(&relation), "{name:?}: `{relation}` is not in {relations:?}");
        }
        seen += 1;
    }
    assert!(seen > 0, "no task");
}

#[test]
fn a_folder_without_a_task_is_told_so() {
    let sandbox = Sandbox::new();
    sandbox.run(&["lint"]).refused(10, &["spec::no_op", "has no op.toml"]);
    sandbox.project("fast-norm", "cpu");
    std::fs::remove_file(sandbox.path("work/fast-norm/op.toml")).expect("a file");
    sandbox.run(&["lint", "fast-norm"]).refused(10, &["spec::no_op", "lint"]);
}

#[test]
fn an_op_toml_alone_is_a_task_and_its_problems_are_told() {
    let sandbox = Sandbox::new();
    let op = std::fs::read_to_string(tasks().join("clean/op.toml")).expect("a task");
    sandbox.write("work/task/op.toml", &op.replace("accumulate", "acumulate"));
    sandbox.run(&["lint", "task"]).refused(10, &["spec::unknown_key", "acumulate"]);
}
