//! The harness in a child process, and the private channel back from it.
//!
//! Owns: the embedded Python, nonces, the parsing of messages. Never: believes a line without this run's nonce.

use std::path::{Path, PathBuf};

use kernel_plan::plan::CommandLine;
use serde_json::{Map, Value, json};

use super::VerifyError;
use crate::base::files::{self, FileError};
use crate::base::process::{self, Finished, Limits};
use crate::base::random;
use crate::toolchain::PythonRuntime;

/// The Python that judges, written to a new folder for every judgement, so that no candidate changes it for the next.
const HARNESS: &[(&str, &str)] = &[
    ("candidate.py", include_str!("../../harness/candidate.py")),
    ("channel.py", include_str!("../../harness/channel.py")),
    ("groups.py", include_str!("../../harness/groups.py")),
    ("kept.py", include_str!("../../harness/kept.py")),
    ("lanes.py", include_str!("../../harness/lanes.py")),
    ("linter.py", include_str!("../../harness/linter.py")),
    ("main.py", include_str!("../../harness/main.py")),
    ("memory.py", include_str!("../../harness/memory.py")),
    ("oracle.py", include_str!("../../harness/oracle.py")),
    ("tensors.py", include_str!("../../harness/tensors.py")),
    ("values.py", include_str!("../../harness/values.py")),
    ("watch.py", include_str!("../../harness/watch.py")),
];

/// Whether the harness in `folder` is what [`unpack`] wrote.
pub(crate) fn is_whole(folder: &Path) -> bool {
    HARNESS
        .iter()
        .all(|(name, text)| files::read(&folder.join(name)).is_ok_and(|there| there == text.as_bytes()))
}

/// Writes the harness to `folder` and returns its entry.
pub(crate) fn unpack(folder: &Path) -> Result<PathBuf, FileError> {
    for (name, text) in HARNESS {
        files::write(&folder.join(name), text)?;
    }
    Ok(folder.join("main.py"))
}

/// One event from the harness.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    /// Its name.
    pub event: String,
    fields: Map<String, Value>,
}

impl Message {
    /// A field as text; empty when it is missing.
    pub(crate) fn text(&self, field: &str) -> String {
        self.fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// A field as a count.
    pub(crate) fn count(&self, field: &str) -> Option<usize> {
        Some(self.fields.get(field)?.as_u64()? as usize)
    }

    /// A field as a flag; false when it is missing.
    pub(crate) fn flag(&self, field: &str) -> bool {
        self.fields.get(field).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Any field.
    pub(crate) fn field(&self, field: &str) -> &Value {
        self.fields.get(field).unwrap_or(&Value::Null)
    }
}

/// A line of the channel, when it carries the nonce.
pub(crate) fn parse(line: &str, nonce: &str) -> Option<Message> {
    let Value::Object(mut fields) = serde_json::from_str(line).ok()? else { return None };
    if fields.remove("nonce")? != nonce {
        return None;
    }
    let Value::String(event) = fields.remove("event")? else { return None };
    Some(Message { event, fields })
}

/// A role that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The process.
    pub process: Finished,
    /// Whether it said at the end that all was done.
    pub done: bool,
    /// Lines on the channel that did not carry the nonce.
    pub forged: usize,
    /// Python files of others that the process opened, as it says itself.
    pub opened: Vec<String>,
}

impl Ended {
    /// The last lines of its error output, for people.
    pub(crate) fn said(&self) -> String {
        let text = self.process.stderr_text();
        let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" | ")
    }
}

/// Plays one role in a child process and hands over its messages as they come.
pub(crate) fn play(
    python: &PythonRuntime,
    harness: &Path,
    role: &str,
    job: &Value,
    limits: Limits,
    on_message: &mut dyn FnMut(&Message),
) -> Result<Ended, VerifyError> {
    play_in(python, harness, role, job, limits, None, on_message)
}

/// The same in a process that `wrap` makes of the usual one, if it is given.
pub(crate) fn play_in(
    python: &PythonRuntime,
    harness: &Path,
    role: &str,
    job: &Value,
    limits: Limits,
    wrap: Option<&dyn Fn(CommandLine) -> CommandLine>,
    on_message: &mut dyn FnMut(&Message),
) -> Result<Ended, VerifyError> {
    let nonce = random::secret();
    let mut job = job.clone();
    job["nonce"] = json!(nonce);
    job["role"] = json!(role);
    let line: CommandLine = python.command().path(harness);
    let line = match harness.parent() {
        Some(folder) => line.cwd(folder),
        None => line,
    };
    let (mut done, mut forged, mut opened) = (false, 0, Vec::new());
    let mut hear = |text: &str| match parse(text, &nonce) {
        Some(message) if message.event == "done" => {
            done = true;
            let paths = message.field("opened").as_array().into_iter().flatten();
            opened.extend(paths.filter_map(Value::as_str).map(str::to_owned));
        }
        Some(message) => on_message(&message),
        None => forged += 1,
    };
    let input = job.to_string();
    let process = match wrap {
        Some(wrap) => process::converse(&wrap(line), limits, input.as_bytes(), &mut hear),
        None => process::converse_from(python.start(), &line, limits, input.as_bytes(), &mut hear),
    };
    Ok(Ended { process: process?, done, forged, opened })
}

#[cfg(test)]
mod tests {
    use kernel_plan::units::Dtype;

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
        let message = parse(line, "right").unwrap();
        assert_eq!((message.event.as_str(), message.count("trial")), ("end", Some(3)));
        for forged in [
            r#"{"nonce": "wrong", "event": "done"}"#,
            r#"{"event": "done"}"#,
            r#"{"nonce": "right"}"#,
            r#"{"nonce": ["right"], "event": "done"}"#,
            "PASS",
            "",
        ] {
            assert_eq!(parse(forged, "right"), None, "{forged}");
        }
    }

    #[test]
    fn the_harness_has_every_dtype_under_the_name_that_torch_has() {
        let (_, text) = HARNESS.iter().find(|(name, _)| *name == "tensors.py").unwrap();
        for dtype in Dtype::ALL {
            let entry = format!("\"{dtype}\": torch.{},", dtype.torch_name());
            assert!(text.contains(&entry), "{entry}");
        }
    }
}
