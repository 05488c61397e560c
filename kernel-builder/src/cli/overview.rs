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

/// The heading of a command's examples.
const EXAMPLES: &str = "Examples:\n";

/// Columns before the description of a command.
pub(super) const NAMES: usize = 14;

/// Printed if there is no command: what a person has, and the command for it.
pub(super) const ROADS: &str = "\
kernelwright builds, verifies, measures and publishes GPU kernels for PyTorch.
Start from what you have:

  nothing yet            kernelwright new me/fast-norm --template rms-norm
  a PyTorch function     kernelwright new me/my-norm --from mine.py:norm
  a model                kernelwright profile model.py:make --to parts
  a .cu file             kernelwright new me/my-op --template blank
  a kernel project       kernelwright make my-norm
  a Rust program         kernelwright embed my-norm --out-dir kernels
  a coding agent         kernelwright mcp my-norm
  candidates to rank     kernelwright screen my-norm --candidates candidates.jsonl
  a record to check      kernelwright reproduce records.jsonl my-norm
  a team that shares     kernelwright serve /srv/kernels

`kernelwright --help` lists all commands; `kernelwright make --help` explains one, with examples.
`kernelwright doctor` shows what this machine has, and how to fix what is missing.
";

/// A command line with its commands in groups, and with examples at the beginning of each command's help. clap has no
/// groups of commands: its own list is hidden.
pub(super) fn in_groups(command: Command) -> Command {
    let list = grouped(&command);
    command
        .mut_subcommands(|verb| examples_first(verb).hide(true))
        .help_template(format!("{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{{all-args}}{{after-help}}"))
}

/// A command whose help begins with its sentence and its examples; the usage and the details follow.
fn examples_first(command: Command) -> Command {
    let about = command.get_about().map(StyledStr::to_string).unwrap_or_default();
    let long = command.get_long_about().map(StyledStr::to_string).unwrap_or_default();
    let details = long.strip_prefix(&about).unwrap_or_default().trim().to_owned();
    // The text between the details and the examples, such as a table.
    let end = command.get_after_help().map(StyledStr::to_string).unwrap_or_default();
    let (more, examples) = end.split_at(end.find(EXAMPLES).unwrap_or_default());
    let details = [details.as_str(), more.trim()].join("\n\n").trim().to_owned();
    let command = if details.is_empty() { command } else { command.before_long_help(details) };
    command.after_help(examples.to_owned()).mut_subcommands(examples_first).help_template(format!(
        "{about}{{after-help}}\n\n{{usage-heading}} {{usage}}\n\n{{before-help}}{{all-args}}"
    ))
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
