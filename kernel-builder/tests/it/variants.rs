//! `variants`: what is built here, what is right and not built here, what is out, and which of them a client takes.

use serde_json::Value;

use super::sandbox::{Ended, Sandbox};

const CPU: &str = "torch-stable-abi210-cpu-x86_64-linux";

/// The rows of the result.
fn rows(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    ended.event("result")["variants"].as_array().expect("a list").clone()
}

#[test]
fn people_see_first_what_is_built() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let listed = sandbox.run(&["variants", "fast-norm"]);
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    let (right, out) = listed.stdout.split_once("Not built (").expect("three parts");
    assert!(out.contains("  a variant above loads there too, with the same code (needs --all)\n"), "{out}");
    assert!(
        out.ends_with("\nvariants: 1 built here, 2 not built here, 159 excluded; 162 in total\n"),
        "{out}"
    );
    insta::assert_snapshot!(right, @r"
    Built here
      torch-stable-abi210-cpu-x86_64-linux  with wheels

    Supported by the project, but not built here
      torch-stable-abi210-cpu-aarch64-linux   it needs a machine with aarch64 and linux
      torch-stable-abi210-cpu-aarch64-darwin  it needs a machine with aarch64 and darwin
    ");
}

#[test]
fn programs_are_told_every_row() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let rows = rows(&sandbox.run(&["variants", "fast-norm", "--message-format", "json"]));
    let count = |key: &str, value: bool| rows.iter().filter(|row| row[key] == value).count();
    assert_eq!((count("selected", true), count("right", true)), (1, 3));
    assert!(rows.len() > 100 && count("selected", false) + 1 == rows.len());
    let built = rows.iter().find(|row| row["variant"] == CPU).expect("the row");
    assert_eq!((&built["provider"], &built["why"]), (&Value::from("wheels"), &Value::from("it fits")));
    let all = sandbox.run(&["variants", "fast-norm", "--all"]).stdout;
    assert!(rows.iter().all(|row| all.contains(row["variant"].as_str().expect("a text"))), "{all}");
}

#[test]
fn all_are_those_that_the_sources_can_serve() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let full = "torch211-cxx11-cpu-x86_64-linux";
    let why = |more: &[&str]| {
        let listed =
            rows(&sandbox.run(&[&["variants", "fast-norm", "--message-format", "json"], more].concat()));
        let row = listed.into_iter().find(|row| row["variant"] == full).expect("the row");
        (row["selected"].clone(), row["why"].as_str().expect("a text").to_owned())
    };
    let (selected, reason) = why(&[]);
    assert!(selected == false && reason.ends_with("(needs --all)"), "{reason}");
    assert_eq!(why(&["--all"]), (Value::Bool(true), "it fits".to_owned()));
    // What a selector shows is few enough for a line each.
    let shown =
        sandbox.run(&["variants", "fast-norm", "--selector", "abi:full and torch:2.11 and arch:x86_64"]);
    assert!(shown.stdout.contains(&format!("  {full} ")), "{}", shown.stdout);
    // One of all may be named without --all; what no extent has is refused with the reason.
    let planned = |id: &str| sandbox.run(&["build", "fast-norm", "--plan", "--variant", id]);
    planned(full).refused(13, &["toolchain::offline"]);
    let text = sandbox.read("work/fast-norm/build.toml");
    sandbox
        .write("work/fast-norm/build.toml", &text.replace("stable-abi = \"2.10\"", "stable-abi = \"2.12\""));
    let later = "torch212-cxx11-cpu-x86_64-linux";
    planned(full).refused(11, &["plan::unknown_variant", "`torch.stable-abi` requires torch 2.12", later]);
    sandbox.write("work/fast-norm/build.toml", &text);
    let none = sandbox.run(&["build", "fast-norm", "--backend", "cuda"]);
    none.refused(11, &["plan::nothing_selected", "with --all there are more"]);
    let none = sandbox.run(&["build", "fast-norm", "--all", "--backend", "cuda"]);
    none.refused(11, &["plan::nothing_selected", full]);
    assert!(!none.stderr.contains("with --all"), "{}", none.stderr);
}

#[test]
fn the_full_abi_has_reasons_or_none() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu,cuda");
    let build = sandbox.read("work/fast-norm/build.toml");
    let full: String = build
        .lines()
        .filter(|line| !line.starts_with("stable-abi"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_ne!(full, build);
    let told = |json: bool| {
        let format: &[&str] = if json { &["--message-format", "json"] } else { &[] };
        sandbox.run(&[&["variants", "fast-norm"], format].concat())
    };
    assert_eq!(told(true).event("result")["full_abi"], serde_json::json!([]));
    // The template's sources do without, so the promise is all that is missing.
    sandbox.write("work/fast-norm/build.toml", &full);
    let listed = told(false).stdout;
    assert!(listed.ends_with("would replace 23 builds by 5\n"), "{listed}");
    assert!(
        listed.contains("nothing in the sources for cpu and cuda needs torch's full ABI: `stable-abi ="),
        "{listed}"
    );
    // One include of the binding forces it for both.
    let binding = "work/fast-norm/torch-ext/torch_binding.cpp";
    let text = sandbox.read(binding);
    sandbox.write(binding, &format!("#include <torch/all.h>\n{text}\nat::Tensor unused();\n"));
    let listed = told(false).stdout;
    assert!(
        listed.contains("\ncpu and cuda need torch's full ABI, so every torch has its own builds, 23 builds instead of 5: \
            fast-norm/torch-ext/torch_binding.cpp:1 includes torch/all.h; fast-norm/torch-ext/torch_binding.cpp:"),
        "{listed}"
    );
    let result = told(true).event("result");
    let reason = &result["full_abi"][1];
    assert_eq!(
        (&reason["backend"], &reason["builds"], &reason["stable"]),
        (&Value::from("cuda"), &Value::from(17), &Value::from(4))
    );
    assert_eq!(
        (&reason["reasons"][0]["name"], &reason["reasons"][0]["line"]),
        (&Value::from("torch/all.h"), &Value::from(1))
    );
    // `build` says it once, before it compiles.
    let built = sandbox.run(&["build", "fast-norm", "--plan"]);
    assert_eq!(built.stderr.matches("need torch's full ABI").count(), 1, "{}", built.stderr);
}

#[test]
fn without_a_project_it_is_the_matrix() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let listed = sandbox.run(&["variants"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(listed.stderr.contains("has no build.toml"), "{}", listed.stderr);
    let matrix = sandbox.run(&["variants", "fast-norm", "--matrix"]);
    assert_eq!(
        (matrix.code, matrix.stdout.as_str(), matrix.stderr.as_str()),
        (0, listed.stdout.as_str(), "")
    );
    sandbox.run(&["variants", "nowhere"]).refused(10, &["spec::no_project"]);
}

#[test]
fn a_selector_selects() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let json = ["--message-format", "json"];
    let selected = |more: &[&str]| {
        let listed = rows(&sandbox.run(&[&["variants"], more, &json].concat()));
        listed.iter().map(|row| row["variant"].as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(selected(&["--selector", "tvm-ffi and cpu and os:darwin"]), ["tvm-ffi01-cpu-aarch64-darwin"]);
    assert_eq!(selected(&["fast-norm", "--selector", "id:*abi210-cpu-x86*"]), [CPU]);
    let slip = sandbox.run(&["variants", "--selector", "cuda:12.9 or noarch"]);
    assert!(slip.code == 0 && slip.stderr.contains("no variant matches `cuda:12.9`"), "{}", slip.stderr);
    sandbox.run(&["variants", "--selector", "cuda and"]).refused(11, &["variant::selector_syntax"]);
    sandbox
        .run(&["build", "fast-norm", "--selector", "cdua"])
        .refused(11, &["variant::selector_name", "cuda"]);
    let none = sandbox.run(&["build", "fast-norm", "--selector", "abi:full"]);
    none.refused(11, &["plan::nothing_selected", "abi:full", CPU]);
}

#[test]
fn a_client_takes_what_it_prefers() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let told = sandbox.run(&["variants", "fast-norm", "--client", "torch=2.13,cpu"]);
    assert!(
        told.stdout.ends_with(&format!("The client loads {CPU}; no other variant loads\n")),
        "{}",
        told.stdout
    );
    let told = sandbox.run(&[
        "variants",
        "fast-norm",
        "--client",
        "torch=2.13,cuda=13.0",
        "--message-format",
        "json",
    ]);
    let client = &told.event("result")["client"];
    assert_eq!((&client["takes"], client["rejected"].as_array().map(Vec::len)), (&Value::Null, Some(3)));
    sandbox.run(&["variants", "--client", "torch=2.13.1"]).refused(11, &["plan::bad_environment"]);
}

#[test]
fn what_cannot_be_built_here_says_what_is_missing() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let elsewhere = "torch-stable-abi210-cpu-aarch64-linux";
    let named = sandbox.run(&["build", "fast-norm", "--variant", elsewhere]);
    named.refused(11, &["plan::not_buildable", "a machine with aarch64", CPU]);
    let text = sandbox.read("work/fast-norm/build.toml");
    let metal = text.replace("backends = [\"cpu\"]", "backends = [\"metal\"]");
    let metal = metal.replace("backend = \"cpu\"", "backend = \"metal\"");
    sandbox.write("work/fast-norm/build.toml", &metal);
    let built = sandbox.run(&["build", "fast-norm"]);
    built.refused(11, &["variant::not_buildable", "it needs a machine with aarch64 and darwin"]);
}
