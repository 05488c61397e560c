//! The examples in help texts, run as they stand there: those that need no network, no GPU and no torch.

use super::sandbox::Sandbox;

const KEPT: &str = include_str!("../../../bench/results/2026-11-21-h200-rms-norm.jsonl");

/// Verbs whose examples all work beside a project `fast-norm` that was measured.
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

fn of(sandbox: &Sandbox, verb: &str) -> Vec<Vec<String>> {
    let help = sandbox.run(&[verb, "--help"]);
    assert_eq!(help.code, 0, "{}", help.stderr);
    examples(&help.stdout)
}

#[test]
fn examples_that_can_work_here_do() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu,cuda");
    sandbox.write("work/fast-norm/.kernelwright/records.jsonl", KEPT);
    sandbox.write("work/bench/results/2026-11-21-h200-rms-norm.jsonl", KEPT);
    for verb in WORK {
        let found = of(&sandbox, verb);
        assert!(!found.is_empty(), "{verb} has no example");
        for words in found {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let done = sandbox.run(&words);
            assert_eq!(done.code, 0, "{}: {}", words.join(" "), done.stderr);
        }
    }
}

#[test]
fn the_example_of_reproduce_names_what_bench_writes() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu,cuda");
    let found = of(&sandbox, "reproduce");
    let [bench, again] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(bench, &["bench", "fast-norm"]);
    // Where `bench` leaves records; what follows needs torch and a GPU.
    sandbox.write("work/fast-norm/.kernelwright/records.jsonl", KEPT);
    let words: Vec<&str> = again.iter().map(String::as_str).chain(["--prebuilt"]).collect();
    sandbox.run(&words).refused(11, &["torch-stable-abi211-cu130-x86_64-linux"]);
}
