//! The help of every command, and the examples in it.

use std::collections::BTreeSet;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

use super::Cli;
use super::overview::{GROUPS, NAMES, ROADS, in_groups};

/// The words of each command in `text`, one a line, without the program.
///
/// Two blanks begin a comment, assignments of the environment come before the program, and a pipe or a
/// redirection ends the command.
fn commands(text: &str) -> Vec<Vec<String>> {
    let joined: String = text.split("\\\n").map(str::trim_start).collect();
    let lines = joined.lines().filter_map(|line| line.split_once("kernelwright ").map(|(_, rest)| rest));
    lines
        .map(|line| {
            let line = line.split("  ").find(|part| !part.trim().is_empty()).unwrap_or_default();
            let words = shlex::split(line).expect("quotes are closed");
            let end = |word: &String| word == "|" || word == ">";
            words.into_iter().take_while(|word| !end(word)).collect()
        })
        .collect()
}

fn parses(words: &[String]) -> Result<(), String> {
    let line = std::iter::once("kernelwright").chain(words.iter().map(String::as_str));
    in_groups(Cli::command())
        .try_get_matches_from(line)
        .map(drop)
        .map_err(|error| format!("{words:?}: {error}"))
}

/// Every command below `command`, with its full name.
fn all(command: &Command, name: &str) -> Vec<(String, Command)> {
    let inner = command.get_subcommands().flat_map(|inner| {
        let name = format!("{name} {}", inner.get_name());
        let below = all(inner, name.trim());
        std::iter::once((name.trim().to_owned(), inner.clone())).chain(below)
    });
    inner.collect()
}

#[test]
fn every_command_is_in_one_group() {
    let named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let cli = Cli::command();
    let there: BTreeSet<&str> = cli.get_subcommands().map(Command::get_name).collect();
    assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), there);
    assert_eq!(named.len(), there.len(), "a command is in two groups");
    assert!(named.iter().all(|name| name.len() < NAMES - 1), "a name is too long for its column");
}

#[test]
fn every_command_begins_with_one_short_sentence() {
    for (name, command) in all(&Cli::command(), "") {
        let about = command.get_about().map(StyledStr::to_string).unwrap_or_default();
        let long = command.get_long_about().map(StyledStr::to_string).unwrap_or_else(|| about.clone());
        assert_eq!(long.lines().next(), Some(about.as_str()), "{name}");
        assert!((2..=25).contains(&about.split_whitespace().count()), "{name}: {about}");
        assert!(!about.contains(". ") && !about.ends_with('.'), "{name}: {about}");
        // Lists of commands fit a terminal of 80 columns.
        assert!(NAMES + 2 + about.chars().count() <= 80, "{name}: {about}");
    }
}

#[test]
fn every_command_has_two_examples_of_itself_and_each_one_parses() {
    for (name, command) in all(&Cli::command(), "") {
        let help = command.get_after_help().map(StyledStr::to_string).unwrap_or_default();
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{name}: no examples"));
        assert!(!examples.contains("\n\n"), "{name}: the examples are the end of the help");
        // clap wraps at 100 columns where it does not know the terminal.
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{name}: {help}");
        let examples = commands(examples);
        assert!(examples.len() >= 2, "{name}: two examples at least");
        for words in &examples {
            parses(words).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let path: Vec<&str> = name.split(' ').collect();
        let own = examples.iter().filter(|words| words.iter().zip(&path).all(|(a, b)| a == b)).count();
        assert!(own >= 2, "{name}: {examples:?}");
    }
}

#[test]
fn every_help_begins_with_the_sentence_and_the_examples() {
    for (name, command) in all(&Cli::command(), "") {
        let line = std::iter::once("kernelwright").chain(name.split(' ')).chain(["--help"]);
        let error = in_groups(Cli::command()).try_get_matches_from(line).expect_err("help ends the parsing");
        let help = error.render().to_string();
        let about = command.get_about().map(StyledStr::to_string).unwrap_or_default();
        let examples = command.get_after_help().map(StyledStr::to_string).unwrap_or_default();
        let (_, examples) = examples.split_once("Examples:\n").expect("examples");
        let begins = format!("{about}\n\nExamples:\n{examples}\n\nUsage: kernelwright {name}");
        assert!(help.starts_with(&begins), "{name}: {help}");
        // The details of the command are there, once.
        let long = command.get_long_about().map(StyledStr::to_string).unwrap_or_default();
        for line in long.lines().skip(1).filter(|line| !line.is_empty()) {
            let start: Vec<&str> = line.split(' ').take(4).collect();
            assert_eq!(
                help.replace('\n', " ").matches(&start.join(" ")).count(),
                1,
                "{name}: {line}\n{help}"
            );
        }
    }
}

#[test]
fn every_road_parses() {
    let roads =
        commands(ROADS.split_once(":\n\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap()));
    assert_eq!(roads.len(), 10);
    let help = Cli::command().get_after_help().map(StyledStr::to_string).unwrap_or_default();
    for words in roads.iter().chain(&commands(&help)) {
        parses(words).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(ROADS.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn an_example_that_does_not_parse_is_found() {
    let text = "  kernelwright make a --no-such    why\n  X=1 kernelwright build 'a b' \\\n    --all > x\n";
    let found = commands(text);
    assert_eq!(found, [vec!["make", "a", "--no-such"], vec!["build", "a b", "--all"]]);
    assert!(parses(&found[0]).is_err_and(|error| error.contains("--no-such")));
    assert_eq!(parses(&found[1]), Ok(()));
}
