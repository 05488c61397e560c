//! Every diagnostic code is on a page of docs/reference/codes, and every code there exists.
//!
//! Owns: what a code looks like in a source. Never: judges what a code means.

use std::collections::BTreeSet;

use super::repository::Repository;

/// The first part of a code.
const STAGES: &[&str] = &[
    "base",
    "spec",
    "plan",
    "variant",
    "exchange",
    "scaffold",
    "toolchain",
    "compile",
    "verify",
    "lint",
    "bench",
    "agent",
    "selftest",
    "archive",
    "package",
    "hub",
    "publish",
    "load",
    "rebuild",
    "serve",
];

/// The folder of the pages.
const DOCUMENTS: &str = "docs/reference/codes";

/// All pages.
fn documents(repository: &Repository) -> String {
    let pages = repository.with_ending(&["md"]).filter(|(path, _)| path.starts_with(DOCUMENTS));
    pages.map(|(_, text)| text).collect::<Vec<_>>().join("\n")
}

/// The bijection, both ways.
pub(super) fn every_code_is_documented(repository: &Repository) -> Vec<String> {
    let document = documents(repository);
    let used: BTreeSet<String> = repository
        .with_ending(&["rs", "py"])
        .filter(|(path, _)| {
            path.starts_with("kernel-builder") && !path.components().any(|part| part.as_os_str() == "tests")
        })
        .flat_map(|(_, text)| codes_in(text))
        .collect();
    let documented: BTreeSet<String> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once('`'))
        .map(|(code, _)| code.to_owned())
        .filter(|code| is_code(code))
        .collect();
    let page = |code: &str| format!("{DOCUMENTS}/{}.md", code.split("::").next().unwrap_or_default());
    let missing =
        used.difference(&documented).map(|code| format!("{}: add a row `| `{code}` | ... |`", page(code)));
    let stale =
        documented.difference(&used).map(|code| format!("{}: `{code}` is no longer used", page(code)));
    missing.chain(stale).collect()
}

/// A kernel that must be refused or warned of says with which codes, and the codes exist.
pub(super) fn cheats_are_refused_by_name(repository: &Repository) -> Vec<String> {
    let document = documents(repository);
    let mut found = Vec::new();
    for (path, text) in repository.with_ending(&["toml"]).filter(|(path, _)| path.ends_with("cheat.toml")) {
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='))
                .map(str::trim)
        };
        let codes = ["refused_with", "warned_with"].iter().filter_map(|key| value(key));
        let codes: Vec<&str> = codes.flat_map(|list| list.split('"').skip(1).step_by(2)).collect();
        if codes.is_empty() && value("passes") != Some("true") && value("queue").is_none() {
            let choice = "`refused_with`, `warned_with`, `passes = true` or `queue`";
            found.push(format!("{}: say {choice}", path.display()));
        }
        for code in codes.iter().filter(|code| !document.contains(&format!("| `{code}` |"))) {
            found.push(format!("{}: there is no code `{code}`", path.display()));
        }
    }
    found
}

/// `code(stage::name)` of an attribute, and `"stage::name"` as a string.
fn codes_in(text: &str) -> BTreeSet<String> {
    let attributes = text.split("code(").skip(1).filter_map(|rest| rest.split(')').next());
    let strings = text.split('"').skip(1);
    attributes.chain(strings).map(str::trim).filter(|code| is_code(code)).map(str::to_owned).collect()
}

fn is_code(text: &str) -> bool {
    let name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    };
    text.split_once("::").is_some_and(|(stage, rest)| STAGES.contains(&stage) && name(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_spellings_and_nothing_else() {
        let text = r#"#[diagnostic(code(publish::no_bundle), help("x"))] const A: &str = "spec::syntax"; use base::env; "std::fs""#;
        let found: Vec<_> = codes_in(text).into_iter().collect();
        assert_eq!(found, ["publish::no_bundle", "spec::syntax"]);
    }

    #[test]
    fn a_cheat_names_a_code_that_exists() {
        let with = |cheat: &str| {
            let mut repository = super::super::repository::tests::one(
                "docs/reference/codes/verify.md",
                "| `verify::guard` | x |\n",
            );
            repository.files.push(("tests/cheats/a/cheat.toml".into(), cheat.to_owned()));
            cheats_are_refused_by_name(&repository).len()
        };
        assert_eq!(with("refused_with = [\"verify::guard\"]\n"), 0);
        assert_eq!(with("passes = true\n"), 0);
        assert_eq!(with("queue = [\n"), 0);
        assert_eq!(with("refused_with = [\"verify::guard\", \"verify::gaurd\"]\n"), 1);
        assert_eq!(with("warned_with = [\"verify::gaurd\"]\n"), 1);
        assert_eq!(with("name = \"b\"\n"), 1);
    }
}
