//! What the documents say exists.
//!
//! Owns: commands in code blocks, links between files, the index of decisions. Never: judges prose.

use std::path::{Component, Path, PathBuf};

use super::Repository;
use crate::repo;

const TASKS: &[&str] = &["kernel", "test", "ci", "tidy", "codegen"];

/// `kernelwright VERB`, `cargo xtask kernel VERB` and `cargo xtask TASK` in code blocks name what there is.
pub(super) fn commands_exist(repository: &Repository) -> Vec<String> {
    let verbs = repo::verbs(&repository.root);
    let mut found = Vec::new();
    for (path, text) in repository.with_ending(&["md"]) {
        let mut in_block = false;
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
            } else if in_block {
                let unknown = unknown_command(line, &verbs);
                found.extend(
                    unknown.map(|what| format!("{}:{}: there is no {what}", path.display(), number + 1)),
                );
            }
        }
    }
    found
}

/// The first command of a line that does not exist. Only what is typed counts: a line that begins with it, maybe
/// after a prompt.
fn unknown_command(line: &str, verbs: &[String]) -> Option<String> {
    let line = line.trim_start().trim_start_matches("$ ");
    let known = |verb: &str| verbs.iter().any(|there| there == verb) || verb == "help" || !is_word(verb);
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", "xtask", "kernel", verb, ..] | ["kernelwright", verb, ..] if !known(verb) => {
            Some(format!("command `{verb}`"))
        }
        ["cargo", "xtask", task, ..] if is_word(task) && !TASKS.contains(task) => {
            Some(format!("task `{task}`"))
        }
        _ => None,
    }
}

fn is_word(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-') && !text.starts_with('-')
}

/// A link to a file of the repository leads to one.
pub(super) fn links_resolve(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in repository.with_ending(&["md"]) {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains(':') || target.contains(' ') {
                continue;
            }
            let place = normal(&path.parent().unwrap_or(Path::new("")).join(target));
            if !repository.root.join(&place).exists() {
                found.push(format!("{}: the link to `{target}` leads nowhere", path.display()));
            }
        }
    }
    found
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut place = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                place.pop();
            }
            Component::CurDir => {}
            other => place.push(other),
        }
    }
    place
}

/// ARCHITECTURE.md has the index of decisions.
pub(super) fn decisions_are_listed(repository: &Repository) -> Vec<String> {
    let index = repository.text("ARCHITECTURE.md").unwrap_or_default();
    repository
        .with_ending(&["md"])
        .filter(|(path, _)| path.starts_with("docs/decisions"))
        .filter_map(|(path, _)| path.file_stem()?.to_str())
        .filter(|name| !index.contains(name))
        .map(|name| format!("ARCHITECTURE.md: list the decision {name}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_typed_commands_count() {
        let verbs = ["make".to_owned(), "new".to_owned()];
        assert_eq!(unknown_command("$ kernelwright make dir", &verbs), None);
        assert_eq!(unknown_command("kernelwright 0.1.0", &verbs), None);
        assert_eq!(unknown_command("cargo xtask kernel mkae x", &verbs).unwrap(), "command `mkae`");
        assert_eq!(unknown_command("cargo xtask fly", &verbs).unwrap(), "task `fly`");
        assert_eq!(unknown_command("see kernelwright sing", &verbs), None);
    }

    #[test]
    fn paths_lose_their_dots() {
        assert_eq!(normal(Path::new("docs/decisions/../style.md")), Path::new("docs/style.md"));
    }
}
