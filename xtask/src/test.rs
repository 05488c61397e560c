//! `cargo xtask test`: everything that must pass before a commit.
//!
//! Owns: the steps and their order. Never: fetches a tool; a step that lacks one says so and takes the next best.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::{codegen, repo, tidy};

/// One step: its name and what it does; an error is what a person should read.
type Step = (&'static str, fn() -> Result<(), String>);

/// In the order of what fails fastest. The tests come before the steps that run the program: their build has it.
const STEPS: &[Step] = &[
    ("format", || cargo(&["fmt", "--all", "--check"])),
    ("tidy", tidy::check),
    ("clippy", || cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])),
    ("tests", tests),
    ("reference", || codegen::generate(codegen::Mode::Check)),
    ("documentation", || finish(docs())),
];

/// The task: runs every step, also after one has failed, and ends with the list of those that did.
pub(crate) fn run() -> ExitCode {
    let mut failed = Vec::new();
    let mut lines = Vec::new();
    for (name, step) in STEPS {
        eprintln!("\n== {name}");
        let started = Instant::now();
        let outcome = step();
        let seconds = started.elapsed().as_secs_f64();
        if let Err(reason) = &outcome {
            eprintln!("{reason}");
            failed.push(*name);
        }
        lines.push(format!(
            "  {:<6} {name:<14} {seconds:6.1} s",
            if outcome.is_ok() { "ok" } else { "FAILED" }
        ));
    }
    eprintln!("\n{}", lines.join("\n"));
    if failed.is_empty() {
        eprintln!("\nall {} steps passed", STEPS.len());
        return ExitCode::SUCCESS;
    }
    eprintln!("\n{} of {} steps failed: {}", failed.len(), STEPS.len(), failed.join(", "));
    ExitCode::FAILURE
}

fn tests() -> Result<(), String> {
    // One more than processors, because many tests wait for a process, a timeout or a disk.
    let threads = std::thread::available_parallelism().map_or(2, |count| count.get() + 1).to_string();
    if has_nextest() {
        let all = ["nextest", "run", "--workspace", "--no-fail-fast", "--profile", profile()];
        return cargo(&[&all[..], &["--test-threads", &threads]].concat());
    }
    eprintln!(
        "cargo-nextest is not installed, so `cargo test` runs instead: the same tests, one binary at a time"
    );
    eprintln!("(install it with: cargo install --locked cargo-nextest)");
    let mut command = repo::cargo();
    command.args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    command.env("RUST_TEST_THREADS", threads);
    finish(command)
}

/// The profile of .config/nextest.toml.
pub(crate) fn profile() -> &'static str {
    if std::env::var_os("CI").is_some() { "ci" } else { "default" }
}

/// Whether cargo-nextest is installed.
pub(crate) fn has_nextest() -> bool {
    let mut command = repo::cargo();
    command.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn docs() -> Command {
    let mut command = repo::cargo();
    command.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "--deny warnings");
    command
}

fn cargo(arguments: &[&str]) -> Result<(), String> {
    let mut command = repo::cargo();
    command.args(arguments);
    finish(command)
}

fn finish(mut command: Command) -> Result<(), String> {
    let shown: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    match command.current_dir(repo::root()).stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo {}: {status}", shown.join(" "))),
        Err(error) => Err(format!("failed to run cargo {}: {error}", shown.join(" "))),
    }
}
