//! `cargo xtask test agents`: the real agent programs, with a scripted model on loopback.
//!
//! Owns: which programs, of which versions, and where they are installed. Never: tests; kernel-builder/tests/it does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::repo;

/// The agents, with their packages. Together they are 1.1 GB: each is installed when it is its turn.
const AGENTS: [(&str, &str); 4] = [
    ("claude", "@anthropic-ai/claude-code@2.1.197"),
    ("codex", "@openai/codex@0.169.0"),
    ("gemini", "@google/gemini-cli@0.61.0"),
    ("opencode", "opencode-ai@1.18.33"),
];

/// The task: for all agents, for those that are named, or for the one whose turn it is.
pub(crate) fn run(wanted: &[&str]) -> ExitCode {
    match check(wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Tests agents; successive commits take turns if none is named.
///
/// # Errors
/// One is unknown, cannot be installed, or a test fails.
pub(crate) fn check(wanted: &[&str]) -> Result<(), String> {
    let root = repo::root();
    let all: Vec<&str> = AGENTS.iter().map(|(name, _)| *name).collect();
    let chosen: Vec<&str> = match wanted {
        ["--all"] => all,
        [] => vec![all[turn(&root) % all.len()]],
        names => {
            repo::named("the agents", &all, names)?;
            names.to_vec()
        }
    };
    if wanted.is_empty() && Command::new("npm").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: npm is not installed, so agents cannot be installed");
        return Ok(());
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for (name, package) in AGENTS.iter().filter(|(name, _)| chosen.contains(name)) {
        folders.push(installed(&root, name, package)?);
    }
    eprintln!("agents: {}", chosen.join(", "));
    let joined = std::env::join_paths(folders).map_err(|error| error.to_string())?;
    let mut command = repo::cargo();
    command.args(["test", "--package", "kernel-builder", "--test", "it", "--", "real_agents::"]);
    let status = command.env("KERNELWRIGHT_AGENTS", joined).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("the tests of {} failed", chosen.join(", "))) }
}

/// The folder with an agent's program; npm installs it once.
fn installed(root: &Path, name: &str, package: &str) -> Result<PathBuf, String> {
    let folder = root.join("target/agents").join(package.replace(['/', '@'], "_"));
    let programs = folder.join("node_modules/.bin");
    if programs.join(name).exists() {
        return Ok(programs);
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(&folder).arg(package);
    let status = npm
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("npm, of Node.js 20 or later: {error}"))?;
    if status.success() && programs.join(name).exists() {
        return Ok(programs);
    }
    Err(format!("npm failed to install {package}"))
}

/// A number that grows with every commit.
fn turn(root: &Path) -> usize {
    let mut git = Command::new("git");
    git.args(["rev-list", "--count", "HEAD"]).current_dir(root);
    let counted = git.output().ok().and_then(|done| String::from_utf8(done.stdout).ok());
    counted.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}
