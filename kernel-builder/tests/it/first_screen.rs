//! The first screen of the README: its picture, plot and table are of the recorded run and the committed records.
//!
//! Owns: that they are up to date, and that the recorded commands still work. Never: records or measures anything.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory;
use kernel_builder::cli::Cli;

/// The program, from a checkout.
const PROGRAM: &str = "cargo xtask kernel ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Fails with what the script says if a file is not as it would be written.
fn up_to_date(script: &str) {
    let mut command = Command::new("python3");
    command.arg(root().join(script)).arg("--check");
    let Ok(done) = command.output() else {
        println!("skipped: python3 not found");
        return;
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Parses `cargo xtask kernel make ...`, and checks that its project, or the file of its function, exists.
fn works(command: &str) -> Result<(), String> {
    let words = command.strip_prefix(PROGRAM).ok_or_else(|| format!("`{command}` is not `{PROGRAM}...`"))?;
    let words = std::iter::once("kernelwright").chain(words.split(' '));
    let matches = Cli::command().try_get_matches_from(words).map_err(|error| error.to_string())?;
    let (_, verb) = matches.subcommand().ok_or("no command")?;
    let there = match verb.get_one::<String>("from") {
        Some(function) => root().join(function.rsplit_once(':').map_or(function.as_str(), |(file, _)| file)),
        None => root().join(verb.get_one::<PathBuf>("dir").ok_or("no project")?).join("build.toml"),
    };
    there.is_file().then_some(()).ok_or_else(|| format!("no {}", there.display()))
}

#[test]
fn the_picture_is_of_the_recorded_run() {
    up_to_date("bench/picture.py");
}

#[test]
fn the_plot_and_the_tables_are_of_the_records() {
    up_to_date("bench/figures.py");
}

#[test]
fn the_tables_of_records_are_of_the_index() {
    up_to_date("bench/records.py");
}

#[test]
fn the_recorded_command_is_that_of_the_readme_and_works() {
    let recorded = text("docs/images/make.txt");
    let commands: Vec<&str> = recorded.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(!commands.is_empty());
    let readme = text("README.md");
    for command in &commands {
        assert_eq!(works(command), Ok(()), "{command}: record again with `python3 bench/picture.py record`");
        assert!(readme.lines().any(|line| line.trim() == *command), "README.md does not show `{command}`");
    }
    assert!(works("cargo xtask kernel make examples/gone").is_err_and(|told| told.contains("gone")));
    assert!(works("cargo xtask kernel make --from gone.py:norm").is_err_and(|told| told.contains("gone")));
    assert!(works("cargo xtask kernel mkae examples/rms-norm").is_err());
}

#[test]
fn the_recorded_run_published_and_loaded_a_kernel() {
    let recorded = text("docs/images/make.txt");
    for line in ["verified", "published", "loaded", "example"] {
        assert!(recorded.lines().any(|there| there.starts_with(line)), "no line `{line}`");
    }
}
