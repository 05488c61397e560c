//! Repository tasks: `cargo xtask <task>`.
//!
//! Owns: the list of tasks and their help. Never: has a dependency, so that it starts in well under a second.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the doors are in kernel-builder, and this crate depends on nothing"
)]

use std::process::ExitCode;

mod agents;
mod ci;
mod codegen;
mod copy;
mod crosscheck;
mod expected;
mod forward;
mod fuzz;
mod projects;
mod repo;
mod talk;
mod test;
mod tidy;

const HELP: &str = "\
Tasks of this repository

Usage: cargo xtask <TASK>

  kernel <ARGS>...     run `kernelwright <ARGS>...` from this checkout, and compile it first if needed
  test                 run all checks: format, tidy, clippy, tests, reference, documentation
  test agents [--all | NAME...]
                       run real coding agents with a scripted model: the next one in turn, all, or those named
                       (npm installs up to 400 MB each into target/agents)
  ci [STEP [ITEM]...]  run the steps of `.ci/run`: all of them, or one step with all its items or those named
                       (downloads what `kernel make` needs)
       --list          list the steps with their budgets
       --full          leave out nothing, as `.ci/full` does
       --keep-going    continue after a step that fails
       --record        write .ci/proven.toml: with --full if it passed, else from earlier runs in this tree
  cheats [NAME]...     run `kernelwright selftest`: some kernels must be refused, honest ones must pass
                       (downloads what `kernel make` needs)
  projects [NAME]...   build kernel projects of other forms, and check the results
                       (downloads what `kernel make` needs)
  crosscheck [CUDA]... compare device code for CUDA 12 with NVIDIA's own compiler of that release
                       (pip downloads 113 MB)
  fuzz [SECONDS] [TARGET]...
                       fuzz the languages, each target for SECONDS (default: 60); needs cargo-fuzz
  tidy                 check only the repository's own rules (docs/style.md)
  codegen [--check]    write docs/reference/cli.md and docs/schema/ from the program's output;
                       --check only compares

Examples:
  cargo xtask kernel make examples/rms-norm
  cargo xtask test
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["kernel", rest @ ..] => forward::kernel(rest),
        ["ci", words @ ..] => ci::run(words),
        ["test"] => test::run(),
        ["test", "agents", words @ ..] => agents::run(words),
        ["cheats", words @ ..] => forward::kernel(&[&["selftest"][..], words].concat()),
        ["projects", names @ ..] => projects::run(names),
        ["crosscheck", releases @ ..] => crosscheck::run(releases),
        ["fuzz"] => fuzz::run("60", &[]),
        ["fuzz", seconds, targets @ ..] => fuzz::run(seconds, targets),
        ["tidy"] => tidy::run(),
        ["codegen"] => codegen::run(codegen::Mode::Write),
        ["codegen", "--check"] => codegen::run(codegen::Mode::Check),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("error: `{}` is not a task\n\n{HELP}", words.join(" "));
            ExitCode::from(2)
        }
    }
}
