//! Runs commands and passes on, or keeps, the text that they print.
//!
//! Owns: when output is shown, and work on several items at a time. Never: decides which commands run.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The place where commands print.
pub(crate) enum Talk {
    /// This program's own output, at once.
    Live,
    /// A text, which is printed as a whole later.
    Kept(String),
}

impl Talk {
    /// Prints a line.
    pub(crate) fn say(&mut self, line: &str) {
        match self {
            Self::Live => println!("{line}"),
            Self::Kept(text) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }

    /// The last lines of a text that is printed as a whole later.
    pub(crate) fn end(&self, lines: usize) -> &str {
        match self {
            Self::Live => "",
            Self::Kept(text) => match text.trim_end().rmatch_indices('\n').nth(lines.saturating_sub(1)) {
                Some((at, _)) => text[at + 1..].trim_end(),
                None => text.trim_end(),
            },
        }
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// It does not start or fails; its output is in the talk.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<(), String> {
        match self {
            Self::Live => outcome(command, |command| {
                command.stdin(Stdio::null()).status().map_err(|error| error.to_string())
            }),
            Self::Kept(_) => self.heard(command).1,
        }
    }

    /// Runs a command and returns the text that it printed on both streams, too.
    pub(crate) fn heard(&mut self, command: &mut Command) -> (String, Result<(), String>) {
        let mut text = String::new();
        let ended = outcome(command, |command| {
            follow(command, |line| {
                self.say(line);
                text.push_str(line);
                text.push('\n');
            })
        });
        (text, ended)
    }
}

/// The command as a person would type it, without the folder of the program.
fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
}

fn outcome(
    command: &mut Command,
    run: impl FnOnce(&mut Command) -> Result<ExitStatus, String>,
) -> Result<(), String> {
    match run(command) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("failed to run `{}`: {status}", shown(command))),
        Err(cause) => Err(format!("failed to start `{}`: {cause}", shown(command))),
    }
}

/// Runs a command and hands on each line that it prints, of both streams in their order.
fn follow(command: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus, String> {
    let failed = |error: std::io::Error| error.to_string();
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let child = command.spawn();
    // The command holds ends of the pipe, which ends only when all of them are closed.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.map_err(failed)?;
    let mut lines = BufReader::new(reader);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        each(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        line.clear();
    }
    child.wait().map_err(failed)
}

/// Number of processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Works on every item, as many at a time as there are processors, and returns the outcomes in the items' order. The text
/// of an item is printed as a whole when it ends; an item that is alone prints at once.
pub(crate) fn side_by_side<T: Sync>(
    items: &[T],
    name: impl Fn(&T) -> String + Sync,
    work: impl Fn(&T, &mut Talk) -> Result<(), String> + Sync,
) -> Vec<Result<(), String>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let worker = || {
        while let Some((place, item)) = Some(next.fetch_add(1, Ordering::Relaxed))
            .and_then(|place| items.get(place).map(|item| (place, item)))
        {
            let mut talk = if items.len() == 1 { Talk::Live } else { Talk::Kept(String::new()) };
            let started = Instant::now();
            let outcome = work(item, &mut talk);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            let word = if outcome.is_ok() { "passed" } else { "FAILED" };
            if let Err(reason) = &outcome {
                talk.say(reason);
            }
            let text = if let Talk::Kept(text) = talk { text } else { String::new() };
            let seconds = started.elapsed().as_secs_f64();
            print!("{text}--- {word}: {} ({seconds:.0} s)\n\n", name(item));
            // A full disk or a closed terminal must not hide the outcome.
            let _ = std::io::stdout().flush();
            done.push((place, outcome));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..processors().min(items.len()) {
            scope.spawn(worker);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_heard_and_a_failure_names_the_command() {
        let mut talk = Talk::Kept(String::new());
        let (text, ended) = talk.heard(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
        assert_eq!(text, "out\nerr\n");
        let reason = ended.unwrap_err();
        assert_eq!(reason, "failed to run `sh -c echo out; echo err >&2; exit 3`: exit status: 3");
        assert!(talk.run(&mut Command::new("true")).is_ok());
        assert!(talk.run(&mut Command::new("/no/such/program")).unwrap_err().starts_with("failed to start"));
    }

    #[test]
    fn the_end_of_a_talk() {
        let mut talk = Talk::Kept(String::new());
        assert_eq!(talk.end(2), "");
        for line in ["first", "second", "third", ""] {
            talk.say(line);
        }
        assert_eq!(talk.end(1), "third");
        assert_eq!(talk.end(2), "second\nthird");
        assert_eq!(talk.end(9), "first\nsecond\nthird");
        assert_eq!(Talk::Live.end(2), "");
    }

    #[test]
    fn outcomes_keep_the_order_of_their_items() {
        let outcomes = side_by_side(
            &["3", "0", "1"],
            |item| (*item).to_owned(),
            |item, talk| talk.run(Command::new("sh").args(["-c", &format!("exit {item}")])),
        );
        assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false]);
    }
}
