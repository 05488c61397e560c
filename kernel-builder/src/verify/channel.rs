//! The harness in a child process, and the private channel back from it.
//!
//! Owns: the embedded Python, nonces, which lines are events. Never: believes a line without this run's nonce.

use std::path::{Path, PathBuf};

use kernel_plan::plan::CommandLine;

use super::VerifyError;
use crate::base::confine;
use crate::base::files::{self, FileError};
use crate::base::process::{self, Finished, Limits};
use crate::base::random;
use crate::protocol::verify::{Event, Job};
use crate::protocol::{self, Opening};
use crate::toolchain::PythonRuntime;

/// The Python that judges, written to a new folder for every judgement, so that no candidate changes it for the next.
const HARNESS: &[(&str, &str)] = &[
    ("candidate.py", include_str!("../../harness/candidate.py")),
    ("casting.py", include_str!("../../harness/casting.py")),
    ("channel.py", include_str!("../../harness/channel.py")),
    ("confine.py", include_str!("../../harness/confine.py")),
    ("exactly.py", include_str!("../../harness/exactly.py")),
    ("groups.py", include_str!("../../harness/groups.py")),
    ("inputs.py", include_str!("../../harness/inputs.py")),
    ("kept.py", include_str!("../../harness/kept.py")),
    ("lanes.py", include_str!("../../harness/lanes.py")),
    ("layouts.py", include_str!("../../harness/layouts.py")),
    ("linter.py", include_str!("../../harness/linter.py")),
    ("main.py", include_str!("../../harness/main.py")),
    ("masks.py", include_str!("../../harness/masks.py")),
    ("memory.py", include_str!("../../harness/memory.py")),
    ("modes.py", include_str!("../../harness/modes.py")),
    ("precision.py", include_str!("../../harness/precision.py")),
    ("oracle.py", include_str!("../../harness/oracle.py")),
    ("protocol.py", include_str!("../../harness/protocol.py")),
    ("protocol_verify.py", include_str!("../../harness/protocol_verify.py")),
    ("own_errors.py", include_str!("../../harness/own_errors.py")),
    ("rounding.py", include_str!("../../harness/rounding.py")),
    ("sources.py", include_str!("../../harness/sources.py")),
    ("tensors.py", include_str!("../../harness/tensors.py")),
    ("values.py", include_str!("../../harness/values.py")),
    ("watch.py", include_str!("../../harness/watch.py")),
    ("wire.py", include_str!("../../harness/wire.py")),
];

/// Whether the harness in `folder` is what [`unpack`] wrote, and nothing else, such as bytecode.
pub(crate) fn is_whole(folder: &Path) -> bool {
    let known = |path: &Path| {
        let text = HARNESS.iter().find(|(name, _)| Path::new(name) == path);
        text.is_some_and(|(_, text)| {
            files::read(&folder.join(path)).is_ok_and(|there| there == text.as_bytes())
        })
    };
    files::walk(folder, |_| true)
        .is_ok_and(|found| found.len() == HARNESS.len() && found.iter().all(|path| known(path)))
}

/// Writes the harness to `folder` and returns its entry.
pub(crate) fn unpack(folder: &Path) -> Result<PathBuf, FileError> {
    for (name, text) in HARNESS {
        files::write(&folder.join(name), text)?;
    }
    Ok(folder.join("main.py"))
}

/// A line of the channel.
#[derive(Debug, PartialEq)]
enum Line {
    Event(Event),
    /// It carries the nonce and is no event of this version; the reason.
    Unreadable(String),
    /// It does not carry the nonce.
    Forged,
}

fn read(line: &str, nonce: &str) -> Line {
    match protocol::fields(line, nonce).map(serde_json::from_value) {
        Some(Ok(event)) => Line::Event(event),
        Some(Err(error)) => Line::Unreadable(error.to_string()),
        None => Line::Forged,
    }
}

/// A role that has ended.
#[derive(Debug)]
pub(crate) struct RoleResult {
    /// The process.
    pub process: Finished,
    /// Whether it said at the end that all was done.
    pub done: bool,
    /// Lines on the channel that did not carry the nonce, or are no events.
    pub forged: usize,
    /// Why the first line that carried the nonce could not be read, if one could not.
    pub unreadable: Option<String>,
    /// Python files of others that the process opened, as it says itself.
    pub opened: Vec<String>,
}

impl RoleResult {
    /// Whether it did all of its work.
    pub(crate) fn complete(&self) -> bool {
        self.done && self.process.ending.success() && self.unreadable.is_none()
    }

    /// The last lines of its error output, for people.
    pub(crate) fn last_words(&self) -> String {
        if let Some(reason) = &self.unreadable {
            return format!("an event cannot be read: {reason}");
        }
        let text = self.process.stderr_text();
        let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" | ")
    }
}

/// Plays the role of a job in a child process and hands over its events as they come.
pub(crate) fn play(
    python: &PythonRuntime,
    harness: &Path,
    job: Job,
    limits: Limits,
    on_event: &mut dyn FnMut(Event),
) -> Result<RoleResult, VerifyError> {
    play_in(python, harness, job, limits, None, on_event)
}

/// The same in a process that `wrap` makes of the usual one, if it is given.
pub(crate) fn play_in(
    python: &PythonRuntime,
    harness: &Path,
    mut job: Job,
    limits: Limits,
    wrap: Option<&dyn Fn(CommandLine) -> CommandLine>,
    on_event: &mut dyn FnMut(Event),
) -> Result<RoleResult, VerifyError> {
    let nonce = random::secret();
    let home = if matches!(job, Job::Candidate(_)) { confine::home()? } else { None };
    if let Job::Candidate(candidate) = &mut job {
        candidate.home = home.as_ref().map(|home| home.path().display().to_string());
    }
    let line: CommandLine = python.command().path(harness);
    let line = match harness.parent() {
        Some(folder) => line.cwd(folder),
        None => line,
    };
    let (mut done, mut forged, mut opened, mut unreadable) = (false, 0, Vec::new(), None);
    let mut hear = |text: &str| match read(text, &nonce) {
        Line::Event(Event::Done { opened: files }) => {
            done = true;
            opened.extend(files);
        }
        Line::Event(event) => on_event(event),
        Line::Unreadable(reason) => {
            forged += 1;
            unreadable.get_or_insert(reason);
        }
        Line::Forged => forged += 1,
    };
    let input = Opening::line(&nonce, job);
    let process = match wrap {
        Some(wrap) => process::converse(&wrap(line), limits, input.as_bytes(), &mut hear),
        None => process::converse_from(python.start(), &line, limits, input.as_bytes(), &mut hear),
    };
    Ok(RoleResult { process: process?, done, forged, unreadable, opened })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_harness_imports_is_embedded() {
        let names: Vec<_> = HARNESS.iter().map(|(name, _)| name.trim_end_matches(".py")).collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("harness");
        for (name, text) in HARNESS {
            let imported =
                text.lines().filter_map(|line| line.trim().strip_prefix("from ")?.split(' ').next());
            for module in imported.filter(|module| files::exists(&folder.join(format!("{module}.py")))) {
                assert!(names.contains(&module), "{name} imports {module}");
            }
        }
    }

    #[test]
    fn only_lines_with_the_nonce_count() {
        let line = r#"{"nonce": "right", "event": "end", "trial": 3}"#;
        assert_eq!(read(line, "right"), Line::Event(Event::End { trial: 3 }));
        for forged in [
            r#"{"nonce": "wrong", "event": "done", "opened": []}"#,
            r#"{"event": "done", "opened": []}"#,
            r#"{"nonce": ["right"], "event": "done", "opened": []}"#,
            "PASS",
            "",
        ] {
            assert_eq!(read(forged, "right"), Line::Forged, "{forged}");
        }
    }

    #[test]
    fn an_event_has_its_fields_and_no_others() {
        for (line, reason) in [
            (r#"{"nonce": "n"}"#, "missing field `event`"),
            (r#"{"nonce": "n", "event": "ended"}"#, "unknown variant `ended`"),
            (r#"{"nonce": "n", "event": "end"}"#, "missing field `trial`"),
            (r#"{"nonce": "n", "event": "end", "trial": 3, "verdict": "passed"}"#, "unknown field `verdict`"),
            (r#"{"nonce": "n", "event": "loaded", "operators": [], "more": 1}"#, "unknown field `more`"),
        ] {
            let Line::Unreadable(found) = read(line, "n") else { panic!("read: {line}") };
            assert!(found.contains(reason), "{found}");
        }
    }
}
