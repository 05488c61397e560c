//! A file operation that failed.
//!
//! Owns: the error of all file operations, and what the operating system said. Never: the next step; `advice` has it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thiserror::Error;

/// A file operation that failed, with the place.
#[derive(Debug, Error)]
#[error("failed to {action} `{}`", path.display())]
pub struct FileError {
    /// What was tried, as a verb: `read`, `write`.
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// What the operating system said.
    #[source]
    pub cause: io::Error,
}

impl FileError {
    /// That `action` failed on `path`.
    pub fn new(action: &'static str, path: &Path, cause: io::Error) -> Self {
        // A temporary file adds its own name, which nobody knows, and hides the number of the error.
        let named = cause.to_string().contains(" at path ");
        let cause = errno_of(&cause).filter(|_| named).map_or(cause, io::Error::from);
        Self { action, path: path.to_owned(), cause }
    }
}

/// Makes the error of `action` on `path` from its cause.
pub(super) fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |cause| FileError::new(action, path, cause)
}

/// The operating system's error code, also of an error that a library wrapped.
pub(super) fn errno_of(cause: &io::Error) -> Option<Errno> {
    let kind = || match cause.kind() {
        io::ErrorKind::StorageFull => Some(Errno::NOSPC),
        io::ErrorKind::QuotaExceeded => Some(Errno::DQUOT),
        io::ErrorKind::FileTooLarge => Some(Errno::FBIG),
        io::ErrorKind::ReadOnlyFilesystem => Some(Errno::ROFS),
        io::ErrorKind::PermissionDenied => Some(Errno::ACCESS),
        io::ErrorKind::NotFound => Some(Errno::NOENT),
        _ => None,
    };
    cause.raw_os_error().map(Errno::from_raw_os_error).or_else(kind)
}
