//! `cargo xtask cheats`: every kernel of tests/cheats is built and judged; bad ones must be refused by their own code,
//! honest ones must pass.
//!
//! Owns: the table of what was caught by what. Never: judges; it reads what `kernelwright verify` says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::{copy, repo};

/// One folder of tests/cheats.
struct Cheat {
    name: String,
    folder: PathBuf,
    /// The project, from the repository's root.
    project: String,
    /// What the cheat's files replace in the project; nothing where the project itself is judged.
    replaces: Vec<String>,
    /// The code that must refuse it; `None` when it must pass.
    refused_with: Option<String>,
    /// Seconds for all calls together, where the cheat is about time.
    deadline: Option<String>,
}

/// Judges every cheat whose name contains one of `wanted`; all of them when nothing is named.
pub(crate) fn run(wanted: &[&str]) -> ExitCode {
    match judge_all(wanted) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn judge_all(wanted: &[&str]) -> Result<usize, String> {
    let root = repo::root();
    let mut cheats = read_all(&root.join("tests/cheats"))?;
    let names: Vec<&str> = cheats.iter().map(|cheat| cheat.name.as_str()).collect();
    repo::named("tests/cheats", &names, wanted)?;
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--package", "kernel-builder"])
        .current_dir(&root)
        .status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("kernelwright does not compile".to_owned());
    }
    cheats.retain(|cheat| wanted.is_empty() || wanted.iter().any(|part| cheat.name.contains(part)));
    let mut wrong = 0;
    println!("{:<26} {:<24} {:<24} seconds", "kernel", "must be", "was");
    for cheat in &cheats {
        let started = Instant::now();
        let refusals = judge(cheat, &root)?;
        let right = match &cheat.refused_with {
            Some(code) => refusals.contains(code),
            None => refusals.is_empty(),
        };
        wrong += usize::from(!right);
        let must = cheat.refused_with.as_deref().unwrap_or("passed");
        let was = if refusals.is_empty() { "passed".to_owned() } else { refusals.join(" ") };
        let mark = if right { "" } else { "   <- WRONG" };
        println!("{:<26} {must:<24} {was:<24} {:.0}{mark}", cheat.name, started.elapsed().as_secs_f64());
    }
    println!("\n{} passed, {wrong} failed", cheats.len() - wrong);
    Ok(wrong)
}

/// Builds and judges one kernel in a copy of its project; gives the codes of its refusals.
fn judge(cheat: &Cheat, root: &Path) -> Result<Vec<String>, String> {
    let project = root.join("target/cheats").join(&cheat.name);
    let failed = |error: std::io::Error| format!("{}: {error}", cheat.name);
    if project.exists() {
        fs::remove_dir_all(&project).map_err(failed)?;
    }
    copy::sources(&root.join(&cheat.project), &project).map_err(failed)?;
    for place in cheat.replaces.iter().map(Path::new) {
        let file = place.file_name().ok_or_else(|| format!("{}: `replaces` names no file", cheat.name))?;
        fs::copy(cheat.folder.join(file), project.join(place)).map_err(failed)?;
    }
    let mut command = Command::new(root.join("target/debug/kernelwright"));
    command.args(["verify", "--backend", "cpu", "--fresh", "--message-format", "json"]).arg(&project);
    if let Some(deadline) = &cheat.deadline {
        command.args(["--deadline", deadline]);
    }
    let output = command.output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let result = text.lines().find(|line| line.contains("\"event\":\"result\""));
    let result =
        result.ok_or_else(|| format!("{}: kernelwright verify gave no result:\n{text}", cheat.name))?;
    Ok(refusals(result))
}

/// Codes of the checks that refused, from the JSON line of `verify`; its fields come in a fixed order.
fn refusals(line: &str) -> Vec<String> {
    line.split("\"code\":\"")
        .skip(1)
        .filter_map(|rest| rest.split_once("\",\"outcome\":\""))
        .filter(|(code, rest)| !code.contains('"') && rest.starts_with("refused"))
        .map(|(code, _)| code.to_owned())
        .collect()
}

fn read_all(folder: &Path) -> Result<Vec<Cheat>, String> {
    let mut cheats = Vec::new();
    for parent in [folder.to_owned(), folder.join("honest")] {
        let entries = fs::read_dir(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if let Ok(text) = fs::read_to_string(path.join("cheat.toml")) {
                cheats.push(read(path, &text)?);
            }
        }
    }
    cheats.sort_by(|a, b| (a.refused_with.is_none(), &a.name).cmp(&(b.refused_with.is_none(), &b.name)));
    Ok(cheats)
}

fn read(folder: PathBuf, text: &str) -> Result<Cheat, String> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='))?;
        Some(line.trim().trim_matches('"').to_owned())
    };
    let wanted =
        |key: &str| value(key).ok_or_else(|| format!("{}/cheat.toml has no `{key}`", folder.display()));
    let honest = value("passes").as_deref() == Some("true");
    let project = match value("project") {
        Some(name) => format!("tests/cheats/projects/{name}"),
        None => "examples/rms-norm".to_owned(),
    };
    let replaces = value("replaces").unwrap_or_default();
    let replaces = replaces
        .split([',', '[', ']'])
        .map(|path| path.trim_matches([' ', '"']).to_owned())
        .filter(|path| !path.is_empty())
        .collect::<Vec<_>>();
    if replaces.is_empty() && !honest {
        return Err(format!("{}/cheat.toml has no `replaces`", folder.display()));
    }
    Ok(Cheat {
        name: wanted("name")?,
        project,
        replaces,
        refused_with: if honest { None } else { Some(wanted("refused_with")?) },
        deadline: value("deadline"),
        folder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_codes_of_refusals_only() {
        let line = r#"{"checks":[{"name":"a","code":"verify::guard","outcome":"refused"},{"code":"verify::load","outcome":"passed"}]}"#;
        assert_eq!(refusals(line), ["verify::guard"]);
    }

    #[test]
    fn every_cheat_can_be_read() {
        let cheats = read_all(&repo::root().join("tests/cheats")).unwrap();
        assert!(cheats.iter().any(|cheat| cheat.refused_with.is_none()), "no honest twin");
        for cheat in cheats {
            let project = repo::root().join(&cheat.project);
            for place in &cheat.replaces {
                let file = Path::new(place).file_name().unwrap();
                assert!(cheat.folder.join(file).exists(), "{} has no {place}", cheat.name);
                assert!(project.join(place).exists(), "the project of {} has no {place}", cheat.name);
            }
        }
    }
}
