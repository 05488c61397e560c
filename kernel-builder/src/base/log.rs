//! The log of what the program does: `-v`, `-vv`, KERNELWRIGHT_LOG.
//!
//! Owns: the only subscriber of `tracing`, where its lines go, and that no secret is in them.
//! Never: is data or talk: standard output, messages and exit codes are the same with and without it.
//!
//! Targets are words that people filter by: `http`, `process`, `cache`, `lock`, `toolchain`. Without a subscriber an event
//! costs one comparison of an integer.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use miette::Diagnostic;
use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;

use super::files::{self, FileError};
use super::report::{Report, StandardError};
use super::{env, secrets, shell};

/// Why there is no log.
#[derive(Debug, Error, Diagnostic)]
pub enum LogError {
    /// The variable is not a filter.
    #[error("{} is not a valid log filter: `{text}`", env::LOG)]
    #[diagnostic(
        code(base::log),
        help(
            "write a level (error, warn, info, debug) or targets with levels, such as `http=debug,process=info`"
        )
    )]
    Filter {
        /// The filter.
        text: String,
        /// The parser's error.
        #[source]
        cause: ParseError,
    },
    /// The file cannot be written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
}

/// Starts the log, if an option or a variable asks for one. Options count before variables. `verbose` is how often `-v` was
/// given; `file` is appended to, in place of standard error.
///
/// # Errors
/// The filter is not valid, or the file cannot be written.
pub fn start(verbose: u8, file: Option<&Path>, report: &Report) -> Result<(), LogError> {
    let file = file.map(Path::to_owned).or_else(|| env::text(env::LOG_FILE).map(PathBuf::from));
    let Some(filter) = filter(verbose, env::text(env::LOG), file.is_some())? else { return Ok(()) };
    secrets::hide_environment();
    let to = match file {
        Some(path) => LogTarget::File(Arc::new(Mutex::new(files::open_for_appending(&path)?))),
        None => LogTarget::StandardError(report.talk_of_others()),
    };
    // Another subscriber can only come from tests that share the process; the first one stays.
    let _already_set =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(to).try_init();
    Ok(())
}

/// Log filter, or `None` for no log. A log file without a level gets everything.
fn filter(verbose: u8, variable: Option<String>, has_file: bool) -> Result<Option<EnvFilter>, LogError> {
    let text = match (verbose, variable, has_file) {
        (0, Some(text), _) => text,
        (0, None, false) => return Ok(None),
        (1, ..) => "info".to_owned(),
        _ => "debug".to_owned(),
    };
    let filter = EnvFilter::builder().parse(&text);
    filter.map(Some).map_err(|cause| LogError::Filter { text, cause })
}

/// Destination of log lines. Each line is written whole, without secrets.
#[derive(Debug, Clone)]
enum LogTarget {
    /// Standard error, above the bars.
    StandardError(StandardError),
    File(Arc<Mutex<File>>),
}

impl<'a> MakeWriter<'a> for LogTarget {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for LogTarget {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let line = secrets::without(&String::from_utf8_lossy(bytes));
        match self {
            Self::StandardError(talk) => talk.say(line.trim_end_matches('\n')),
            Self::File(file) => {
                file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The words of this program's own command line.
pub fn arguments() -> String {
    env::arguments().iter().map(|argument| shell::word(argument)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::causes::chain;

    #[test]
    fn options_count_before_variables() {
        let shown = |verbose, variable: Option<&str>, has_file| {
            let found = filter(verbose, variable.map(str::to_owned), has_file).unwrap();
            found.map(|filter| filter.to_string())
        };
        assert_eq!(shown(0, None, false), None);
        assert_eq!(shown(1, None, false).as_deref(), Some("info"));
        assert_eq!(shown(2, Some("error"), false).as_deref(), Some("debug"));
        assert_eq!(shown(9, None, false).as_deref(), Some("debug"));
        assert_eq!(shown(0, Some("http=debug"), true).as_deref(), Some("http=debug"));
        assert_eq!(shown(0, None, true).as_deref(), Some("debug"), "a file without a level gets everything");
        let error = filter(0, Some("http=loud".to_owned()), false).unwrap_err();
        let text = chain(&error);
        assert!(text.starts_with("KERNELWRIGHT_LOG is not a valid log filter: `http=loud`: "), "{text}");
    }
}
