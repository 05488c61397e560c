//! What a person reads and what a program reads, from the same events.
//!
//! Owns: standard output (data only) and standard error (talk, bars).
//! Never: decides anything; an event is emitted after it happened.

use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::{Value, json};

use super::causes::chain;
use super::{annotation, env, paint};

pub(super) mod event;
mod quantity;

pub use event::{BuildProgress, Event};
pub use quantity::{bytes, duration};

/// How standard output is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum MessageFormat {
    /// Text and tables on standard output, progress on standard error.
    #[default]
    Human,
    /// One JSON object per line on standard output, and nothing on standard error.
    Json,
    /// For `check`: one line per problem, `path:line:column: severity[code]: message`.
    Short,
    /// For `check`: annotations for GitHub Actions.
    Github,
}

/// Whom to tell. Shared by all threads.
#[derive(Debug)]
pub struct Report {
    format: MessageFormat,
    bars: MultiProgress,
    draws: bool,
    paints: bool,
    quiet: bool,
    stdout: Mutex<()>,
}

impl Report {
    /// A report in one format; `quiet` leaves warnings, results and errors only.
    pub fn new(format: MessageFormat, quiet: bool) -> Self {
        let draws = format == MessageFormat::Human && !quiet && env::draws_bars();
        Self {
            format,
            bars: MultiProgress::new(),
            draws,
            paints: env::paints(),
            quiet,
            stdout: Mutex::new(()),
        }
    }

    /// How standard output is written.
    pub fn format(&self) -> MessageFormat {
        self.format
    }

    /// Whether standard output is JSON lines.
    pub fn is_json(&self) -> bool {
        self.format == MessageFormat::Json
    }

    /// Whether a bar shows how far it is, so that nobody needs lines that say so.
    pub fn draws(&self) -> bool {
        self.draws
    }

    /// Tells one event.
    pub fn emit(&self, event: &Event<'_>) {
        if self.is_json() {
            return self.json_line(event);
        }
        let line = match event {
            Event::Stage { name, subject } => format!("\n{name} {subject}"),
            Event::Done { action, subject, detail, seconds, cached } => {
                let took =
                    if *cached { "cached".to_owned() } else { duration(Duration::from_secs_f64(*seconds)) };
                let detail = if detail.is_empty() { String::new() } else { format!("  {detail}") };
                format!("  {action:<9} {subject}{detail}  ({took})")
            }
            Event::Unit { .. } => return,
            Event::Progress(standing) => {
                format!("  {}/{} units, {standing}", standing.done, standing.total)
            }
            Event::Note { text } => format!("  note: {text}"),
            Event::Warning { text } => format!("  warning: {text}"),
        };
        if !self.quiet || matches!(event, Event::Warning { .. }) {
            let line = if self.paints { paint::line(event, &line) } else { line };
            self.talk(&line);
        }
    }

    /// A note; see [`Event::Note`].
    pub fn note(&self, text: impl AsRef<str>) {
        self.emit(&Event::Note { text: text.as_ref() });
    }

    /// A warning; see [`Event::Warning`].
    pub fn warn(&self, text: impl AsRef<str>) {
        self.emit(&Event::Warning { text: text.as_ref() });
    }

    /// The result of a command: `human` on standard output, or one JSON object with `"event": "result"`.
    pub fn result(&self, command: &str, data: &impl Serialize, human: &str) {
        if self.is_json() {
            let mut line = json!({ "event": "result", "command": command });
            match serde_json::to_value(data) {
                Ok(Value::Object(fields)) => {
                    for (name, value) in fields {
                        line[name] = value;
                    }
                }
                Ok(other) => line["data"] = other,
                Err(error) => line["error"] = Value::String(error.to_string()),
            }
            return self.json_line(&line);
        }
        self.raw(human);
    }

    /// Text that is itself the data asked for (a completion script, a manual page).
    pub fn raw(&self, text: &str) {
        let _turn = self.stdout.lock();
        self.bars.suspend(|| {
            let mut out = std::io::stdout().lock();
            // A closed pipe (`| head`) is the reader's wish, not an error.
            let _closed = out
                .write_all(text.as_bytes())
                .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
            let _closed = out.flush();
        });
    }

    /// An error, rendered for people or as one JSON object with `"event": "error"`.
    pub fn error(&self, exit: u8, error: &miette::Report) {
        if self.is_json() {
            return self.json_line(&error_line(exit, error));
        }
        if self.format == MessageFormat::Github {
            let code = error.code().map(|code| code.to_string()).unwrap_or_default();
            let help = error.help().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
            let text = chain(&**error) + &help;
            return self.raw(&annotation::line("error", &[("title", &code)], &text));
        }
        self.talk(&format!("{error:?}"));
    }

    /// A bar over `total` (bytes or things); plain lines at start and end where no bar can be drawn.
    pub fn progress(&self, what: &str, kind: ProgressKind, total: Option<u64>) -> Progress {
        if self.draws {
            let bar = match total {
                Some(total) => ProgressBar::new(total),
                None => ProgressBar::new_spinner(),
            };
            let bar = self.bars.add(bar.with_style(kind.style()).with_message(what.to_owned()));
            bar.enable_steady_tick(Duration::from_millis(100));
            return Progress { bar };
        }
        if self.format == MessageFormat::Human && !self.quiet {
            let size = match (kind, total) {
                (ProgressKind::Bytes, Some(total)) => format!(" ({})", bytes(total)),
                _ => String::new(),
            };
            self.talk(&format!("  {what}{size} ..."));
        }
        let bar = ProgressBar::hidden();
        bar.set_length(total.unwrap_or(0));
        Progress { bar }
    }

    /// A way to standard error for lines that are not events: the log.
    pub(super) fn talk_of_others(&self) -> StandardError {
        StandardError { bars: self.bars.clone() }
    }

    /// Text for a person who gave no command, on standard error.
    pub fn advice(&self, text: &str) {
        self.talk(text.trim_end());
    }

    fn talk(&self, line: &str) {
        self.talk_of_others().say(line);
    }

    fn json_line(&self, value: &impl Serialize) {
        let _turn = self.stdout.lock();
        let line = serde_json::to_string(value)
            .unwrap_or_else(|error| json!({"error": error.to_string()}).to_string());
        let mut out = std::io::stdout().lock();
        let _closed = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
    }
}

/// An error for programs; its message is that of the error and of all its causes.
fn error_line(exit: u8, error: &miette::Report) -> Value {
    let code = error.code().map(|code| code.to_string());
    let help = error.help().map(|help| help.to_string());
    json!({
        "event": "error", "exit": exit, "code": code, "message": chain(&**error),
        "help": help, "rendered": format!("{error:?}"),
    })
}

/// Standard error, shared with the bars.
#[derive(Debug, Clone)]
pub(super) struct StandardError {
    bars: MultiProgress,
}

impl StandardError {
    /// Writes one line above the bars.
    pub(super) fn say(&self, line: &str) {
        // A closed pipe is the reader's wish, not an error.
        self.bars.suspend(|| {
            std::io::stderr().lock().write_all(format!("{line}\n").as_bytes()).unwrap_or_default()
        });
    }
}

/// What a bar counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressKind {
    /// Bytes, with rate and time left.
    Bytes,
    /// Things, with a count.
    Count,
    /// Units of a build; the message says the rest.
    Units,
}

impl ProgressKind {
    fn style(self) -> ProgressStyle {
        let template = match self {
            Self::Bytes => {
                "  {msg:32!} {bar:28} {decimal_bytes:>10}/{decimal_total_bytes:10} {decimal_bytes_per_sec} {eta}"
            }
            Self::Count => "  {msg:32!} {bar:28} {pos}/{len} {elapsed}",
            Self::Units => "  {bar:24} {pos}/{len} units, {wide_msg}",
        };
        ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ")
    }
}

/// A bar; gone when dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar that nobody sees, for a step that is over before it could be read.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    /// Counts `amount` more.
    pub fn add(&self, amount: u64) {
        self.bar.inc(amount);
    }

    /// Takes back what was counted of something that has to be done again.
    pub fn take_back(&self, amount: u64) {
        self.bar.dec(amount);
    }

    /// Counts from the start again, to `count`.
    pub fn set(&self, count: u64) {
        self.bar.set_position(count);
    }

    /// Sets the total once it is known.
    pub fn total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Says what is being done now.
    pub fn doing(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use miette::Diagnostic;
    use thiserror::Error;

    use super::*;
    use crate::base::files::FileError;

    #[derive(Debug, Error, Diagnostic)]
    #[error("the figures could not be kept")]
    #[diagnostic(code(test::unkept), help("make room"))]
    struct Unkept(#[source] FileError);

    #[test]
    fn people_and_programs_are_told_every_cause() {
        let cause = io::Error::new(io::ErrorKind::StorageFull, "no space is left");
        let file = FileError { action: "write", path: PathBuf::from("records.jsonl"), cause };
        let report = miette::Report::new(Unkept(file));
        let line = error_line(20, &report);
        let all = "the figures could not be kept: failed to write `records.jsonl`: no space is left";
        assert_eq!(line["message"], all);
        assert_eq!((&line["code"], &line["help"]), (&json!("test::unkept"), &json!("make room")));
        let shown = format!("{report:?}");
        for part in all.split(": ") {
            assert!(shown.contains(part), "{shown}");
        }
        assert_eq!(line["rendered"], shown);
    }
}
