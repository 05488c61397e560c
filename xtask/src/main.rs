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

  kernel <ARGS>...     run `kernelwright <ARGS>...` from this checkout; compiles it first where needed
  test                 everything that must pass: format, tidy, clippy, tests, reference, documentation
  test agents [--all | NAME...]
                       real coding agents with a scripted model: the one whose turn it is, all, or those named (npm
                       installs up to 400 MB each into target/agents)
  ci [STEP [ITEM]...]  the steps of `.ci/run`: all of them, or one, with all its items or those named (fetches likewise)
       --list          list the steps, with their budgets
       --full          leave out nothing, as `.ci/full` does
       --keep-going    go on after a step that fails
       --record        write .ci/proven.toml: with --full when it passed, else from earlier runs in this tree
  cheats [NAME]...     `kernelwright selftest`: kernels that must be refused, and honest ones that must pass (fetches what
                       `kernel make` does)
  projects [NAME]...   other people's forms of a kernel project, and what must come of each (fetches likewise)
  crosscheck [CUDA]... device code for CUDA 12 beside NVIDIA's own compiler of that release (fetches 113 MB by pip)
  fuzz [SECONDS] [TARGET]...
                       fuzz the languages, each target for so long (60); needs cargo-fuzz
  tidy                 the repository's own rules (docs/style.md) alone
  codegen [--check]    write docs/reference/cli.md and docs/schema/ from what the program prints; --check only compares

Start here: cargo xtask kernel make examples/rms-norm
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
