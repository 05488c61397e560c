//! What the documents say exists.
//!
//! Owns: commands in code blocks, links between files and their anchors, the length of README.md and of ARCHITECTURE.md,
//! the index of decisions.
//! Never: judges prose.

use std::path::{Component, Path, PathBuf};

use super::repository::Repository;
use crate::repo;

const TASKS: &[&str] =
    &["kernel", "test", "ci", "tidy", "codegen", "cheats", "projects", "crosscheck", "fuzz"];

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

/// The commands of the program, with those below them: the headings of its reference.
const COMMANDS: &str = "docs/reference/cli.md";

/// A command in backticks, in a message of the program or in prose, is one that exists.
pub(super) fn named_commands_exist(repository: &Repository) -> Vec<String> {
    let commands: Vec<&str> = repository
        .text(COMMANDS)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(" kernelwright "))
        .collect();
    let mut found = Vec::new();
    for (path, text) in repository.with_ending(&["rs", "md"]) {
        for (number, line) in text.lines().enumerate() {
            for quoted in line.split("`kernelwright ").skip(1) {
                if let Some(unknown) = unknown_quoted(quoted, &commands) {
                    found.push(format!(
                        "{}:{}: there is no command `kernelwright {unknown}`",
                        path.display(),
                        number + 1
                    ));
                }
            }
        }
    }
    found
}

/// The command that a text behind "kernelwright " begins with, up to a backtick, if it does not exist.
fn unknown_quoted<'a>(text: &'a str, commands: &[&str]) -> Option<&'a str> {
    let text = text.split('`').next().unwrap_or_default();
    let mut ends = text.match_indices(' ').map(|(end, _)| end).chain([text.len()]);
    let verb = &text[..ends.next()?];
    if !is_word(verb) || verb.is_empty() || verb == "help" {
        return None;
    }
    if !commands.contains(&verb) {
        return Some(verb);
    }
    let below = format!("{verb} ");
    let pair = &text[..ends.next()?];
    let is_group = commands.iter().any(|command| command.starts_with(&below));
    (is_group && is_word(&pair[below.len()..]) && !commands.contains(&pair)).then_some(pair)
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

/// The anchor of a link is a heading of the file that it leads to.
pub(super) fn anchors_exist(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in repository.with_ending(&["md"]) {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, anchor)) = target.split_once('#') else { continue };
            if target.contains([':', ' ']) {
                continue;
            }
            let place = match file {
                "" => path.to_owned(),
                file => normal(&path.parent().unwrap_or(Path::new("")).join(file)),
            };
            let Some(there) = repository.text(&place.to_string_lossy()) else { continue };
            if place.extension().is_none_or(|ending| ending != "md") {
                continue;
            }
            if !headings(there).any(|line| slug(line) == anchor) {
                found.push(format!("{}: no heading of {} is `#{anchor}`", path.display(), place.display()));
            } else if anchor.contains("--") {
                found.push(format!(
                    "{}: `#{anchor}` has another name on the site, which writes `--` as `-`; write the heading \
                     of {} with single spaces and hyphens between its words",
                    path.display(),
                    place.display()
                ));
            }
        }
    }
    found
}

/// The texts of the headings of a Markdown file.
fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    text.lines().filter_map(move |line| {
        in_block ^= line.trim_start().starts_with("```");
        let (marks, title) = line.split_once(' ')?;
        (!in_block && marks.starts_with('#') && marks.trim_matches('#').is_empty()).then_some(title)
    })
}

/// The anchor that GitHub gives a heading. A second heading of the same text would get a number; no link needs that.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).flat_map(char::to_lowercase).collect()
}

/// The most words of README.md: two screens.
const README_WORDS: usize = 900;

/// README.md fits on two screens. Details have pages in docs/.
pub(super) fn readme_is_short(repository: &Repository) -> Vec<String> {
    let text = repository.text("README.md").unwrap_or_default();
    // Comments are for scripts: no reader sees them.
    let seen: String =
        text.lines().filter(|line| !line.starts_with("<!--")).map(|line| format!("{line}\n")).collect();
    let words = words(&seen);
    if words <= README_WORDS {
        return Vec::new();
    }
    vec![format!("README.md: {words} words, {README_WORDS} are the most; move details to docs/")]
}

/// The most lines of ARCHITECTURE.md: one sitting.
const ARCHITECTURE_LINES: usize = 300;

/// ARCHITECTURE.md can be read in one sitting. Folders are described in docs/code-map.md.
pub(super) fn architecture_is_short(repository: &Repository) -> Vec<String> {
    let lines = repository.text("ARCHITECTURE.md").unwrap_or_default().lines().count();
    if lines <= ARCHITECTURE_LINES {
        return Vec::new();
    }
    vec![format!(
        "ARCHITECTURE.md: {lines} lines, {ARCHITECTURE_LINES} are the most; describe folders in docs/code-map.md"
    )]
}

/// Words of a text: whatever stands between blanks and has a letter or a digit.
fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
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

/// docs/decisions/README.md has the index of decisions.
pub(super) fn decisions_are_listed(repository: &Repository) -> Vec<String> {
    let index = repository.text("docs/decisions/README.md").unwrap_or_default();
    repository
        .with_ending(&["md"])
        .filter(|(path, _)| path.starts_with("docs/decisions"))
        .filter_map(|(path, _)| path.file_stem()?.to_str())
        .filter(|name| *name != "README" && !index.contains(name))
        .map(|name| format!("docs/decisions/README.md: list the decision {name}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::repository::tests::one;
    use super::*;

    #[test]
    fn a_quoted_command_exists_with_what_is_below_it() {
        let commands = ["make", "toolchain", "toolchain gc"];
        for known in
            ["make`", "make DIR` builds", "toolchain gc --yes`", "toolchain`", "VERB`", "--help`", "0.1.0`"]
        {
            assert_eq!(unknown_quoted(known, &commands), None, "{known}");
        }
        assert_eq!(unknown_quoted("mkae`", &commands), Some("mkae"));
        assert_eq!(unknown_quoted("toolchain remove` deletes", &commands), Some("toolchain remove"));
    }

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

    #[test]
    fn anchors_are_those_of_headings() {
        let page = "# A `page`: its 2 names_x\n```\n## Not this\n```\n";
        let links = format!(
            "{page}[a](#a-page-its-2-names_x) [b](#not-this) [c](https://x.y/z#w) [d](other.png#e)\n"
        );
        let found = anchors_exist(&one("docs/a.md", &links));
        assert_eq!(found, ["docs/a.md: no heading of docs/a.md is `#not-this`"]);
        let other = Repository {
            files: vec![
                ("b.md".into(), "[x](docs/a.md#gone)".to_owned()),
                ("docs/a.md".into(), page.to_owned()),
            ],
            ..one("x", "")
        };
        assert_eq!(anchors_exist(&other), ["b.md: no heading of docs/a.md is `#gone`"]);
    }

    #[test]
    fn an_anchor_is_the_same_on_the_site() {
        let found = anchors_exist(&one("a.md", "# Lengths: `--drawn`\n[a](#lengths---drawn)\n"));
        assert_eq!(
            found,
            [
                "a.md: `#lengths---drawn` has another name on the site, which writes `--` as `-`; write the heading of \
              a.md with single spaces and hyphens between its words"
            ]
        );
    }

    #[test]
    fn a_long_readme_is_found() {
        assert_eq!(words("| a | 1.5x - `b` |\n---"), 3);
        assert!(readme_is_short(&one("README.md", &"word ".repeat(README_WORDS))).is_empty());
        let full = format!("<!-- a comment -->\n{}", "word ".repeat(README_WORDS));
        assert!(readme_is_short(&one("README.md", &full)).is_empty());
        let found = readme_is_short(&one("README.md", &"word ".repeat(README_WORDS + 1)));
        assert_eq!(found, ["README.md: 901 words, 900 are the most; move details to docs/"]);
    }

    #[test]
    fn architecture_has_at_most_three_hundred_lines() {
        let long = |lines: usize| architecture_is_short(&one("ARCHITECTURE.md", &"line\n".repeat(lines)));
        assert!(long(ARCHITECTURE_LINES).is_empty());
        let message = "ARCHITECTURE.md: 301 lines, 300 are the most; describe folders in docs/code-map.md";
        assert_eq!(long(ARCHITECTURE_LINES + 1), [message]);
    }
}
