//! The first help that a person sees: the commands in groups, and the roads that `kernelwright` alone shows.
//!
//! Owns: the groups and the roads. Never: parses or runs anything.

use clap::Command;
use clap::builder::StyledStr;

/// The groups of `--help`. Every command is in one of them; a test compares.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("Every stage", &["make"]),
    ("Scaffold", &["new", "templates", "generate"]),
    ("Specify", &["check", "lint", "update", "import", "export", "schema"]),
    ("Build", &["variants", "lock", "build", "embed", "pin", "check-abi", "verify-build"]),
    ("Verify", &["verify", "selftest"]),
    ("Measure", &["screen", "fill", "bench", "profile", "inject", "reproduce", "report"]),
    ("Agents", &["mcp", "candidates", "submit", "skill"]),
    ("Publish and load", &["package", "layout", "sign", "publish", "hub", "load", "serve"]),
    ("This machine", &["toolchain", "doctor", "gpu", "explain", "completions", "man"]),
];

/// Columns before the description of a command.
pub(super) const NAMES: usize = 14;

/// Printed if there is no command: what a person has, and the command for it.
pub(super) const ROADS: &str = "\
kernelwright builds, verifies, measures and publishes GPU kernels for PyTorch.
Start from what you have:

  nothing yet            kernelwright new me/fast-norm --template rms-norm
  a PyTorch function     kernelwright new me/my-norm --from mine.py:norm
  a kernel project       kernelwright make my-norm
  candidates to rank     kernelwright screen my-norm --candidates candidates.jsonl
  a coding agent         kernelwright mcp my-norm
  a record to check      kernelwright reproduce records.jsonl my-norm
  a team that shares     kernelwright serve /srv/kernels

`kernelwright --help` lists all commands; `kernelwright make --help` explains one, with examples.
`kernelwright doctor` shows what this machine has, and how to fix what is missing.
";

/// A command line with its commands in groups. clap has no groups of commands: its own list is hidden.
pub(super) fn in_groups(command: Command) -> Command {
    let list = grouped(&command);
    command
        .mut_subcommands(|verb| verb.hide(true))
        .help_template(format!("{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{{all-args}}{{after-help}}"))
}

/// Every group with its commands and their first lines.
fn grouped(command: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in GROUPS {
        text.push_str(&format!("{heading}:\n"));
        for verb in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = verb.get_about().map(StyledStr::to_string).unwrap_or_default();
            text.push_str(&format!("  {:<NAMES$}{about}\n", verb.get_name()));
        }
        text.push('\n');
    }
    text
}
