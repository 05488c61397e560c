//! The examples in help texts, run as they stand there: those that need no network, no GPU and no torch.

use super::old_records::old_record;
use super::sandbox::Sandbox;

fn kept() -> &'static str {
    old_record("2026-11-21-h200-rms-norm.jsonl")
}

/// Verbs whose examples all work beside projects that were measured.
const WORK: [&str; 6] = ["completions", "export", "man", "report", "schema", "templates"];

/// The commands of the examples in a help text, without this program's name.
fn examples(help: &str) -> Vec<Vec<String>> {
    let behind = help.split("Example").nth(1).unwrap_or_default();
    let lines = behind.lines().filter_map(|line| line.trim().strip_prefix("kernelwright "));
    let words = |line: &str| {
        let words = line.split_whitespace().take_while(|word| !["|", ">"].contains(word));
        words.map(str::to_owned).collect()
    };
    lines.map(words).collect()
}

/// A place with what examples take for granted: projects that were measured.
fn place() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in ["fast-norm", "my-norm"] {
        sandbox.project(name, "cpu,cuda");
        sandbox.write(&format!("work/{name}/.kernelwright/records.jsonl"), kept());
    }
    sandbox
}

/// The words of an example; what lies in a checkout is named from anywhere.
fn anywhere(words: &[String]) -> Vec<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let lies_there = |word: &str| ["bench/", "examples/"].iter().any(|folder| word.starts_with(folder));
    words.iter().map(|word| if lies_there(word) { format!("{root}{word}") } else { word.clone() }).collect()
}

fn of(sandbox: &Sandbox, verb: &str) -> Vec<Vec<String>> {
    let help = sandbox.run(&[verb, "--help"]);
    assert_eq!(help.code, 0, "{}", help.stderr);
    let found = examples(&help.stdout);
    assert!(!found.is_empty(), "{verb} has no example");
    found
}

#[test]
fn examples_that_can_work_here_do() {
    for verb in WORK {
        for words in of(&Sandbox::new(), verb) {
            let words = anywhere(&words);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            // Each in a new place: some do not overwrite what another one made.
            let done = place().run(&words);
            assert_eq!(done.code, 0, "{}: {}", words.join(" "), done.stderr);
        }
    }
}

#[test]
fn the_examples_of_reproduce_name_records_of_their_projects() {
    let sandbox = place();
    let of_projects =
        |words: &Vec<String>| words[0] == "reproduce" && words[1].ends_with("/.kernelwright/records.jsonl");
    let found: Vec<_> = of(&sandbox, "reproduce").into_iter().filter(of_projects).collect();
    assert!(!found.is_empty(), "no example names the records that `bench` writes");
    for words in found {
        assert_eq!(words[1], format!("{}/.kernelwright/records.jsonl", words[2]));
        // What follows needs torch and a GPU.
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--prebuilt"]).collect();
        sandbox.run(&words).refused(11, &["torch-stable-abi211-cu130-x86_64-linux"]);
    }
}
