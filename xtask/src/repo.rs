//! Where things are in this repository.
//!
//! Owns: the root, the cache, the list of files, the names of the program's commands. Never: judges any of them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the workspace: where cargo runs this program for, which may have moved since it was compiled.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    here.parent().unwrap_or(&here).to_owned()
}

/// The cargo that started this program, so that both are of one toolchain. The variables that cargo set for this program are
/// not handed on: build scripts look at them, and would compile anew what a cargo without them has compiled.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    forget_cargo(&mut command);
    command
}

/// Removes what cargo told this program about itself from the environment of a command that may start cargo.
pub(crate) fn forget_cargo(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
}

/// Builds the program of this checkout and says where it is: beside this one.
///
/// # Errors
/// It does not compile; cargo has said why.
pub(crate) fn program(root: &Path) -> Result<PathBuf, String> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--bin", "kernelwright"]).current_dir(root);
    match command.status() {
        Ok(status) if status.success() => beside_this_one("kernelwright"),
        Ok(status) => Err(format!("the program does not compile: {status}")),
        Err(error) => Err(format!("failed to run cargo: {error}")),
    }
}

/// A binary of the workspace in the profile that this one was built with. A test's binary lies one folder further down.
pub(crate) fn beside_this_one(name: &str) -> Result<PathBuf, String> {
    let here = std::env::current_exe()
        .map_err(|error| format!("failed to find the path of this program: {error}"))?;
    let folder = here.parent().filter(|folder| !folder.ends_with("deps")).or_else(|| here.parent()?.parent());
    folder.map(|folder| folder.join(name)).ok_or_else(|| "the path of this program has no folder".to_owned())
}

/// The cache of `kernelwright`, as the program itself finds it.
pub(crate) fn cache() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("KERNELWRIGHT_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("kernelwright")))
        .unwrap_or_else(|| variable("HOME").unwrap_or_default().join(".cache/kernelwright"))
}

/// Every file that is or would be committed, relative to the root, sorted.
///
/// # Errors
/// git is missing, or this is no checkout: what ought to be looked at is not known then.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("failed to run git to list the files: {error}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()));
    }
    let mut files: Vec<PathBuf> = String::from_utf8_lossy(&listed.stdout)
        .split('\0')
        .filter(|name| !name.is_empty() && root.join(name).is_file())
        .map(PathBuf::from)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// Every one of `wanted` is part of a name: one that is not would otherwise be a run of nothing that passes.
///
/// # Errors
/// One is not; all names of the folder are in the message.
pub(crate) fn named(folder: &str, names: &[&str], wanted: &[&str]) -> Result<(), String> {
    let idle = |part: &&&str| !names.iter().any(|name| name.contains(**part));
    let Some(idle) = wanted.iter().find(idle) else { return Ok(()) };
    let list: String = names.iter().map(|name| format!("\n  {name}")).collect();
    Err(format!("no name in {folder} contains `{idle}`; there are{list}"))
}

/// The commands of `kernelwright`, in the order of its help: the variants of `enum Verb` in cli.rs.
pub(crate) fn verbs(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("kernel-builder/src/cli.rs")).unwrap_or_default();
    let body = text.split_once("enum Verb {").map_or("", |(_, rest)| rest);
    let body = body.split_once("\n}").map_or(body, |(body, _)| body);
    body.lines()
        .filter_map(|line| line.trim().split_once('('))
        .map(|(name, _)| kebab(name))
        .filter(|name| !name.is_empty())
        .collect()
}

/// `DryRun` → `dry-run`, as clap names commands.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars().filter(char::is_ascii_alphanumeric) {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nothing_has_is_told_with_all_that_there_are() {
        let names = ["data-files", "twin-left"];
        assert_eq!(named("tests/projects", &names, &[]), Ok(()));
        assert_eq!(named("tests/projects", &names, &["twin", "data"]), Ok(()));
        let told = named("tests/projects", &names, &["twin", "nosuch"]);
        let words = "no name in tests/projects contains `nosuch`; there are\n  data-files\n  twin-left";
        assert_eq!(told, Err(words.to_owned()));
    }
}
