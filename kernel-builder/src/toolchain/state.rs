//! Small answers kept in the cache, with the stamps of what they depend on.
//!
//! Owns: reading and writing them; a file that cannot be read counts as absent. Never: keeps anything that cannot be
//! found again.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::files::{self, FileError};
use crate::base::process::Finished;

/// A path with its size and time of last change.
pub(super) type Stamp = (PathBuf, u64, i64);

pub(super) fn load<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&files::read(file).ok()?).ok()
}

pub(super) fn save(file: &Path, value: &impl Serialize) -> Result<(), FileError> {
    let text = serde_json::to_vec(value).map_err(|error| FileError {
        action: "write",
        path: file.to_owned(),
        cause: std::io::Error::other(error),
    })?;
    files::write(file, text)
}

/// The stamp of a path; nothing where there is nothing.
pub(super) fn stamp_of(path: &Path) -> Option<Stamp> {
    let (size, time) = files::stamp(path).ok()?;
    Some((path.to_owned(), size, time as i64))
}

/// The end of what a program said, for a message.
pub(super) fn last_words(done: &Finished) -> String {
    let text = match done.stderr_text() {
        said if said.trim().is_empty() => done.stdout_text(),
        said => said,
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.len() {
        0 => format!("it {}", done.ending),
        count => lines[count.saturating_sub(4)..].join("; "),
    }
}
