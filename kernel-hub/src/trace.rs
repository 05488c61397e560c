//! The log of what the hub does: `-v`, `-vv`, KERNELWRIGHT_LOG. It is off by default.
//!
//! Owns: the only subscriber of `tracing`, and where its lines go.
//! Never: is the access log, which is `server/log.rs`; contains a token, an Authorization header or a query.
//!
//! Targets are words that people filter by: `hub`, `storage`, `auth`, `http`, `connection`. docs/logging.md lists them.
//! No event is given a secret. Lines are searched for tokens of this program all the same.
//!
//! kernel-builder's `base/log.rs` has the same two variables. The choice of the filter, one function of ten lines, stands in
//! both: the programs share no other code, and destinations, secrets and errors differ.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;

use crate::auth::PREFIX;

/// A level, or targets with levels.
const LEVEL: &str = "KERNELWRIGHT_LOG";
/// A file in place of standard error.
const FILE: &str = "KERNELWRIGHT_LOG_FILE";

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The variable is not a filter.
    #[error(
        "{LEVEL} is not a valid log filter: `{text}`: {cause}\nhelp: write a level (error, warn, info, debug) or targets with levels, such as `auth=debug,storage=info`"
    )]
    Filter {
        /// The filter.
        text: String,
        /// The parser's error.
        #[source]
        cause: ParseError,
    },
    /// The file cannot be opened.
    #[error("failed to open the log file {}: {cause}", .path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
}

/// Starts the log, if an option or a variable asks for one. Options count before variables.
/// `verbose` is how often `-v` was given; `file` is appended to, in place of standard error.
///
/// # Errors
/// The filter is not valid, or the file cannot be opened.
pub fn start(verbose: u8, file: Option<&Path>) -> Result<(), TraceError> {
    let file = file.map(Path::to_owned).or_else(|| variable(FILE).map(PathBuf::from));
    let Some(filter) = filter(verbose, variable(LEVEL), file.is_some())? else { return Ok(()) };
    let to = match file {
        Some(path) => {
            let opened = OpenOptions::new().create(true).append(true).open(&path);
            LogTarget::File(Arc::new(Mutex::new(opened.map_err(|cause| TraceError::File { path, cause })?)))
        }
        None => LogTarget::Stderr,
    };
    // Another subscriber can only come from tests that share the process; the first one stays.
    let _already_set =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(to).try_init();
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this crate does not use kernel-builder's base")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Log filter, or `None` for no log. A log file without a level gets everything.
fn filter(verbose: u8, variable: Option<String>, has_file: bool) -> Result<Option<EnvFilter>, TraceError> {
    let text = match (verbose, variable, has_file) {
        (0, Some(text), _) => text,
        (0, None, false) => return Ok(None),
        (1, ..) => "info".to_owned(),
        _ => "debug".to_owned(),
    };
    let filter = EnvFilter::builder().parse(&text);
    filter.map(Some).map_err(|cause| TraceError::Filter { text, cause })
}

/// Destination of log lines. Each line is written whole.
#[derive(Debug, Clone)]
enum LogTarget {
    Stderr,
    File(Arc<Mutex<File>>),
}

impl<'a> MakeWriter<'a> for LogTarget {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for LogTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = without_tokens(&String::from_utf8_lossy(bytes));
        // A log whose reader has gone, or whose disk is full, must not end the server.
        let _unwritten = match self {
            Self::Stderr => io::stderr().lock().write_all(line.as_bytes()),
            Self::File(file) => {
                file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
            }
        };
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Replaces everything that looks like a token of this program, such as one in a path that a client sent.
fn without_tokens(text: &str) -> String {
    let mut parts = text.split(PREFIX);
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        found += "***";
        found += part.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_count_before_variables() {
        let shown = |verbose, variable: Option<&str>, has_file| {
            let found = filter(verbose, variable.map(str::to_owned), has_file).unwrap();
            found.map(|filter| filter.to_string())
        };
        assert_eq!(shown(0, None, false), None);
        assert_eq!(shown(1, Some("error"), false).as_deref(), Some("info"));
        assert_eq!(shown(2, None, true).as_deref(), Some("debug"));
        assert_eq!(shown(0, Some("auth=debug"), true).as_deref(), Some("auth=debug"));
        assert_eq!(shown(0, None, true).as_deref(), Some("debug"), "a file without a level gets everything");
    }

    #[test]
    fn tokens_are_replaced_wherever_they_stand() {
        assert_eq!(without_tokens("GET /a/kwhub_00ff/b kwhub_1\n"), "GET /a/***/b ***\n");
        assert_eq!(without_tokens("nothing here"), "nothing here");
    }
}
