//! Messages of other programs about a full or read-only disk.
//!
//! Owns: recognising it in the output of pip, uv and linkers, so that it is not reported as trouble with the network.
//! Never: writes.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::error::ToolchainError;
use crate::base::files::{self, FileError};
use crate::base::process::Finished;

/// How the C library, and so every program, words these errors; Python adds `[Errno 28]`, Rust `(os error 28)`.
const WORDS: [(&str, Errno); 5] = [
    ("No space left on device", Errno::NOSPC),
    ("Disk quota exceeded", Errno::DQUOT),
    ("File too large", Errno::FBIG),
    ("Read-only file system", Errno::ROFS),
    ("Permission denied", Errno::ACCESS),
];

/// The error of a program that was to write `wanted` into `folder`: that there is no room, else what `otherwise` makes.
pub(super) fn or_else(
    done: &Finished,
    wanted: &str,
    folder: &Path,
    otherwise: impl FnOnce() -> ToolchainError,
) -> ToolchainError {
    match find_file_error(&done.stderr_text(), folder) {
        Some(cause) => ToolchainError::NoRoom { wanted: wanted.to_owned(), needs: None, cause },
        None => otherwise(),
    }
}

/// The first such error in a text, with the place that it is about: a path that it names, or `folder`.
fn find_file_error(text: &str, folder: &Path) -> Option<FileError> {
    let (line, words, errno) = text.lines().find_map(|line| {
        let (words, errno) = WORDS.into_iter().find(|(words, _)| line.contains(words))?;
        Some((line, words, errno))
    })?;
    let behind = line.split_once(words).map(|(_, rest)| rest).unwrap_or_default();
    let quoted = behind.split(['\'', '"', '`']).nth(1).map(Path::new).filter(|path| path.is_absolute());
    // The quoted path may be the source of a copy, so the disk with less free space is the full one.
    let room = |path: &&Path| files::free_space(path).unwrap_or(u64::MAX);
    let full = matches!(errno, Errno::NOSPC | Errno::DQUOT);
    let places = [quoted, Some(folder)].into_iter().flatten();
    let path = if full { places.min_by_key(room) } else { quoted };
    Some(FileError::new("write", path.unwrap_or(folder), io::Error::from(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_found_in_what_programs_print() {
        let path = |text: &str| {
            find_file_error(text, Path::new("/cache")).map(|error| error.path.display().to_string())
        };
        let pip = "ERROR: Exception:\nTraceback (most recent call last):\n  File \"x.py\", line 5\n\
                   OSError: [Errno 28] No space left on device\n";
        assert_eq!(path(pip).as_deref(), Some("/cache"));
        let named =
            "ERROR: Could not install packages due to an OSError: [Errno 30] Read-only file system: '/a/b'\n";
        assert_eq!(path(named).as_deref(), Some("/a/b"));
        let uv = "error: failed to write to file `/c/d`: No space left on device (os error 28)";
        assert_eq!(path(uv).as_deref(), Some("/cache"));
        assert_eq!(path("ERROR: No matching distribution found for torch==9"), None);
    }
}
