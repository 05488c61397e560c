//! `new --ci github`: the workflow is YAML, its parts fit together, and what it calls exists.
//!
//! Owns: reading the workflow. Never: runs it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use yaml_rust2::{Yaml, YamlLoader};

use super::sandbox::Sandbox;

const WORKFLOW: &str = "work/ci-norm/.github/workflows/kernel.yml";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&[
        "new",
        "me/ci-norm",
        "--template",
        "rms-norm",
        "--backends",
        "cpu",
        "--ci",
        "github",
        "--no-git",
    ]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    sandbox
}

fn workflow(sandbox: &Sandbox) -> Yaml {
    let text = sandbox.read(WORKFLOW);
    assert!(!text.contains('@') || !text.contains("@VERSION@") && !text.contains("@REPOSITORY@"), "{text}");
    let mut documents = YamlLoader::load_from_str(&text).expect("YAML");
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

/// Whether it is the name of a commit, and no tag that may be moved.
fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The steps of a job.
fn steps(job: &Yaml) -> Vec<Yaml> {
    job["steps"].as_vec().expect("steps").clone()
}

#[test]
fn without_the_option_there_is_no_workflow() {
    let sandbox = Sandbox::new();
    sandbox.project("ci-norm", "cpu");
    assert!(!sandbox.path("work/ci-norm/.github").exists());
    sandbox
        .run(&["new", "me/other-norm", "--template", "rms-norm", "--ci", "jenkins"])
        .refused(2, &["jenkins", "github"]);
}

#[test]
fn the_parts_of_the_workflow_fit_together() {
    let sandbox = sandbox();
    let workflow = workflow(&sandbox);
    let jobs = workflow["jobs"].as_hash().expect("jobs");
    let names: Vec<&str> = jobs.keys().filter_map(Yaml::as_str).collect();
    assert_eq!(names, ["plan", "build", "package", "publish"]);
    for (place, (name, job)) in jobs.iter().enumerate() {
        assert!(job["runs-on"].as_str().is_some(), "{name:?}");
        // Each waits for the one before it.
        let needs = place.checked_sub(1).map(|before| names[before]);
        let all = job["needs"].as_vec().and_then(|all| all.last()).unwrap_or(&job["needs"]);
        assert_eq!(all.as_str(), needs, "{name:?}");
        for step in steps(job) {
            let (uses, run) = (step["uses"].as_str(), step["run"].as_str());
            assert!(uses.is_some() != run.is_some(), "{step:?}");
            // An action is pinned to a commit; a script takes nothing of an event by pasting it.
            let commit = |uses: &str| uses.split_once('@').is_some_and(|(_, commit)| is_commit(commit));
            assert!(uses.is_none_or(commit), "{step:?}");
            assert!(run.is_none_or(|run| !run.contains("${{")), "{step:?}");
        }
        assert!(job["timeout-minutes"].as_i64().is_some_and(|minutes| minutes < 360), "{name:?}");
        assert!(job["permissions"]["contents"].as_str().is_some(), "{name:?}");
    }
    // The program is of one release or commit everywhere, which cargo takes for `--rev` whichever it is.
    let revision = workflow["env"]["KERNELWRIGHT_REVISION"].as_str();
    assert_eq!(revision, Some(concat!("v", env!("CARGO_PKG_VERSION"))));
    let text = sandbox.read(WORKFLOW);
    assert_eq!(text.matches("--rev \"$KERNELWRIGHT_REVISION\" kernel-builder || {").count(), 1);
    // Every commit of an action has its version behind it, for people and for the programs that update both.
    for line in text.lines().filter(|line| line.contains("uses: ")) {
        assert!(
            line.split_once(" # v")
                .is_some_and(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit())),
            "{line}"
        );
    }
    let build = &workflow["jobs"]["build"];
    assert_eq!(
        build["strategy"]["matrix"]["variant"].as_str(),
        Some("${{ fromJSON(needs.plan.outputs.variants) }}")
    );
    let output = workflow["jobs"]["plan"]["outputs"]["variants"].as_str().expect("an output");
    let id = output.trim_start_matches("${{ steps.").split('.').next().expect("a step");
    assert!(steps(&workflow["jobs"]["plan"]).iter().any(|step| step["id"].as_str() == Some(id)));
    // Only what signs may have an identity, and only for a tag.
    let publish = &workflow["jobs"]["publish"];
    assert_eq!(publish["permissions"]["id-token"].as_str(), Some("write"));
    assert!(publish["if"].as_str().is_some_and(|when| when.contains("refs/tags/v")));
    assert!(workflow["permissions"].as_hash().is_some_and(|all| all.is_empty()));
    let writes = |name: &&&str| {
        let granted = workflow["jobs"][**name]["permissions"].as_hash().expect("permissions");
        granted.values().any(|value| value.as_str() == Some("write"))
    };
    assert_eq!(names.iter().filter(writes).collect::<Vec<_>>(), [&"publish"]);
    let secrets = |step: &Yaml| format!("{step:?}").contains("secrets.");
    for name in names.iter().filter(|name| **name != "publish") {
        assert!(!steps(&workflow["jobs"][*name]).iter().any(secrets), "{name}");
    }
    let signs = |step: &Yaml| step["uses"].as_str().is_some_and(|uses| uses.starts_with("sigstore/"));
    assert!(steps(publish).iter().any(signs));
}

#[test]
fn what_the_workflow_calls_exists() {
    let sandbox = sandbox();
    let workflow = workflow(&sandbox);
    let mut called = BTreeSet::new();
    for (_, job) in workflow["jobs"].as_hash().expect("jobs") {
        for step in steps(job) {
            for line in step["run"].as_str().unwrap_or_default().lines() {
                // Messages name commands, too, and signatures name what they are for.
                let is_other =
                    ["cargo install", "::error", "ssh-keygen"].iter().any(|word| line.contains(word));
                let Some((_, words)) = line.split_once("kernelwright ").filter(|_| !is_other) else {
                    continue;
                };
                let verb = words.split_whitespace().next().expect("a verb").to_owned();
                let help = sandbox.run(&[&verb, "--help"]);
                assert_eq!(help.code, 0, "{line}: {}", help.stderr);
                let options = words.split(['>', ';']).next().unwrap_or_default().split_whitespace();
                for option in options.filter(|word| word.starts_with("--")) {
                    assert!(help.stdout.contains(option), "`{option}` of {line}");
                }
                called.insert(verb);
            }
        }
    }
    let wanted = ["build", "check", "check-abi", "package", "publish", "sign", "variants"];
    assert_eq!(called.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
    // The matrix is made of what `variants` says, by these fields.
    let listed = sandbox.run(&["variants", "ci-norm", "--message-format", "json"]).event("result");
    let rows = listed["variants"].as_array().expect("a list");
    assert!(rows.iter().any(|row| row["selected"] == true && row["variant"].is_string()), "{listed}");
    assert!(sandbox.read(WORKFLOW).contains("select(.selected) | .variant"));
}

/// `.ci/release` runs the workflow with them.
#[test]
fn the_stand_ins_know_every_action_and_every_input() {
    let sandbox = sandbox();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/release/actions");
    let mut used = BTreeSet::new();
    for (_, job) in workflow(&sandbox)["jobs"].as_hash().expect("jobs") {
        for step in steps(job) {
            let Some((name, _)) = step["uses"].as_str().and_then(|uses| uses.split_once('@')) else {
                continue;
            };
            let name = name.rsplit('/').next().expect("a name").to_owned();
            let text = std::fs::read_to_string(folder.join(&name).join("action.yml"));
            let text = text.unwrap_or_else(|error| panic!("{name}: {error}"));
            let action = YamlLoader::load_from_str(&text).expect("YAML").remove(0);
            let declared = action["inputs"].as_hash().expect("inputs");
            let given = step["with"].as_hash().into_iter().flat_map(|with| with.keys());
            for input in given {
                assert!(declared.contains_key(input), "{name} does not know {input:?}");
            }
            used.insert(name);
        }
    }
    let there = std::fs::read_dir(&folder).expect("a folder").flatten();
    let there: BTreeSet<String> =
        there.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(there, used);
}

#[test]
fn actionlint_has_nothing_to_say() {
    let sandbox = sandbox();
    let mut line = Command::new("actionlint");
    match line.arg(sandbox.path(WORKFLOW)).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        }
        Err(error) => eprintln!("skipped: actionlint is not installed ({error})"),
    }
}
