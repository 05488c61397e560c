//! `check` and `variants`: problems with their places, for people and for programs.

use std::path::Path;

use super::sandbox::Sandbox;

/// A project whose build.toml has two mistakes of different kinds.
fn broken() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu,cuda");
    let text = sandbox.read("work/fast-norm/build.toml");
    let text = text
        .replace("cuda-capabilities", "cuda-capabilites")
        .replace("fast_norm_cpu/rms_norm.cpp", "fast_norm_cpu/gone.cpp");
    sandbox.write("work/fast-norm/build.toml", &text);
    sandbox
}

#[test]
fn tells_every_problem_with_its_place() {
    let checked = broken().run(&["check", "fast-norm"]);
    assert_eq!(checked.code, 10);
    for word in [
        "spec::unknown_key",
        "cuda-capabilites",
        "did you mean",
        "spec::source_missing",
        "gone.cpp",
        "build.toml:",
    ] {
        assert!(checked.stdout.contains(word), "`{word}` is not in:\n{}", checked.stdout);
    }
}

#[test]
fn tells_programs_the_same_with_lines_and_columns() {
    let sandbox = broken();
    let checked = sandbox.run(&["check", "fast-norm", "--message-format", "json"]);
    assert_eq!(checked.code, 10);
    let result = checked.event("result");
    assert_eq!(result["ok"], false);
    let problems = result["problems"].as_array().expect("a list");
    let problem =
        problems.iter().find(|problem| problem["code"] == "spec::unknown_key").expect("the unknown key");
    let line = problem["labels"][0]["line"].as_u64().expect("a line") as usize;
    let text = sandbox.read("work/fast-norm/build.toml");
    assert!(text.lines().nth(line - 1).expect("that line").contains("cuda-capabilites"), "{problem}");
    assert_eq!(problem["severity"], "error");
    assert_eq!(problem["labels"][0]["column"], 1);
}

#[test]
fn a_folder_that_is_no_project_is_told_so() {
    let sandbox = Sandbox::new();
    sandbox.run(&["check"]).refused(10, &["spec::no_project", "kernelwright new"]);
    sandbox.run(&["check", "nowhere"]).refused(10, &["spec::no_project", "nowhere"]);
    let checked = sandbox.run(&["build", "nowhere", "--message-format", "json"]);
    let error = checked.event("error");
    assert_eq!((&error["exit"], &error["code"]), (&10.into(), &"spec::no_project".into()));
    assert!(checked.stderr.is_empty(), "{}", checked.stderr);
}

#[test]
fn an_error_of_the_specification_stops_every_verb_that_builds() {
    let sandbox = broken();
    for verb in ["variants", "build", "verify", "bench", "package", "make"] {
        sandbox.run(&[verb, "fast-norm"]).refused(10, &["spec::unknown_key"]);
    }
}

#[test]
fn every_example_of_the_repository_is_sound() {
    let sandbox = Sandbox::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).expect("the folder of examples").flatten() {
        let Some(folder) = entry.path().to_str().map(str::to_owned) else { continue };
        if !entry.path().join("build.toml").is_file() {
            continue;
        }
        let checked = sandbox.run(&["check", &folder]);
        assert_eq!((checked.code, checked.stdout.as_str()), (0, "no problems\n"), "{folder}");
        assert_eq!(sandbox.run(&["variants", &folder]).code, 0, "{folder}");
        seen += 1;
    }
    assert!(seen > 0, "no example has a build.toml");
}

#[test]
fn variants_says_why_a_row_is_out() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let listed = sandbox.run(&["variants", "fast-norm", "--message-format", "json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let result = listed.event("result");
    let rows = result["variants"].as_array().expect("a list");
    let selected: Vec<_> =
        rows.iter().filter(|row| row["selected"] == true).map(|row| &row["variant"]).collect();
    assert_eq!(selected, [&"torch-stable-abi211-cpu-x86_64-linux"]);
    assert!(rows.iter().all(|row| row["why"].as_str().is_some_and(|why| !why.is_empty())), "{rows:?}");
}

#[test]
fn a_variant_that_does_not_fit_is_a_plan_error() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let built = sandbox.run(&["build", "fast-norm", "--variant", "torch-stable-abi211-cu130-x86_64-linux"]);
    built.refused(11, &["plan::unknown_variant", "torch-stable-abi211-cpu-x86_64-linux"]);
    sandbox.run(&["build", "fast-norm", "--backend", "cuda"]).refused(11, &["plan::nothing_selected"]);
}
