//! `cargo xtask codegen`: files that follow from the program: documentation that it prints, and its messages in Python.
//!
//! Owns: docs/reference/cli.md, docs/schema/, and when kernel-builder/harness/protocol*.py are written.
//! Never: edits a file that a person writes.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::repo;

/// What to do with a file that is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Write it.
    Write,
    /// Say so and fail.
    Check,
}

/// The heading of the options that every command has.
const SHARED: &str = "Options of every command:";

/// The test of kernel-builder that compares harness/protocol*.py with the types of its messages.
const PROTOCOL: &str = "protocol::generated::the_python_side_is_generated";
/// The variable that lets this test write the files.
const WRITE_PROTOCOL: &str = "KERNELWRIGHT_WRITE_PROTOCOL";

/// The task.
pub(crate) fn run(mode: Mode) -> ExitCode {
    match protocol(mode).and_then(|()| generate(mode)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Writes harness/protocol*.py, or compares them, by a test of kernel-builder: the schemas of messages are no part of the
/// program. `cargo xtask test` runs that test with all others.
fn protocol(mode: Mode) -> Result<(), String> {
    let mut command = repo::cargo();
    command.args(["test", "--quiet", "--package", "kernel-builder", "--lib", "--", "--exact", PROTOCOL]);
    if mode == Mode::Write {
        command.env(WRITE_PROTOCOL, "1");
    }
    match command.current_dir(repo::root()).stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the test {PROTOCOL}: {status}")),
        Err(error) => Err(format!("failed to run cargo: {error}")),
    }
}

/// Brings every file of the documentation up to date, or checks that it is.
pub(crate) fn generate(mode: Mode) -> Result<(), String> {
    let program = repo::program(&repo::root())?;
    let mut files = vec![("docs/reference/cli.md".to_owned(), reference(&program)?)];
    for file in ["build", "op"] {
        files.push((format!("docs/schema/{file}.schema.json"), output(&program, &["schema", file])?));
    }
    files.iter().try_for_each(|(target, wanted)| bring(target, wanted, mode))
}

fn bring(target: &str, wanted: &str, mode: Mode) -> Result<(), String> {
    let path = repo::root().join(target);
    if std::fs::read_to_string(&path).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    if mode == Mode::Check {
        return Err(format!(
            "{target} is not what the program prints; run `cargo xtask codegen` and commit it"
        ));
    }
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder
        .and_then(|()| std::fs::write(&path, wanted))
        .map_err(|error| format!("failed to write {target}: {error}"))
}

/// One section a command, in the order of the help.
fn reference(program: &Path) -> Result<String, String> {
    let mut text = String::from(
        "# The command line\n\nWritten by `cargo xtask codegen` from `--help`; do not edit.\n\
         From a checkout, `cargo xtask kernel` stands for `kernelwright`.\n",
    );
    let root = repo::root();
    for verb in std::iter::once(None).chain(repo::verbs(&root).into_iter().map(Some)) {
        let title =
            verb.as_ref().map_or_else(|| "kernelwright".to_owned(), |verb| format!("kernelwright {verb}"));
        let words: Vec<&str> = verb.as_deref().into_iter().collect();
        let help = help(program, &words)?;
        text.push_str(&format!("\n## {title}\n\n```text\n{help}```\n"));
        // The program itself lists the commands that have sections of their own.
        for inner in inner_commands(&help).into_iter().filter(|_| verb.is_some()) {
            let words: Vec<&str> = words.iter().copied().chain([inner.as_str()]).collect();
            let help = self::help(program, &words)?;
            text.push_str(&format!("\n### {title} {inner}\n\n```text\n{help}```\n"));
        }
    }
    Ok(text)
}

/// The commands that a command's help lists.
fn inner_commands(help: &str) -> Vec<String> {
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A line that begins deeper continues a description.
    let names = list.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let words = names.filter_map(|line| line.split_whitespace().next());
    words.filter(|word| *word != "help").map(str::to_owned).collect()
}

fn help(program: &Path, words: &[&str]) -> Result<String, String> {
    let arguments: Vec<&str> = words.iter().copied().chain(["--help"]).collect();
    let text = output(program, &arguments)?;
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    // The options that every command has are shown once, with the program.
    let lines = if words.is_empty() { lines } else { without_section(&lines, SHARED) };
    Ok(format!("{}\n", lines.join("\n").trim_end()))
}

/// What the program prints.
fn output(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    // Help is as wide as the terminal; a file has one width.
    command.args(arguments).env("COLUMNS", "110").stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("failed to run {}: {error}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("kernelwright {}: {}\n{said}", arguments.join(" "), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The lines without a heading and the indented lines below it.
fn without_section<'a>(lines: &[&'a str], heading: &str) -> Vec<&'a str> {
    let mut inside = false;
    let mut kept = Vec::new();
    for line in lines {
        inside = *line == heading || (inside && (line.is_empty() || line.starts_with(' ')));
        if !inside {
            kept.push(*line);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_at_the_next_heading() {
        let lines = ["Usage: x", "", "Options:", "  -a", "", "  -b", "", "Example:", "  x -a"];
        assert_eq!(without_section(&lines, "Options:"), ["Usage: x", "", "Example:", "  x -a"]);
    }
}
