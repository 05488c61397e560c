//! When something of the cache was last used, and whether something is used now.
//!
//! Owns: `used/` of the cache: an empty file for each thing, whose time is the last use, and the lock that every run
//! shares. Never: removes what it speaks of.

use std::path::{Path, PathBuf};

use super::state;
use crate::base::files::{self, FileError, FileLock};
use crate::base::session::Session;

fn stamp(session: &Session, name: &str) -> PathBuf {
    session.cache.join("used").join(name)
}

/// Records a use. Nothing depends on it but what is removed first, so a failure is no failure.
pub(super) fn now(session: &Session, name: &str) {
    let path = stamp(session, name);
    files::used(&path);
    if !files::exists(&path) {
        let _cannot_be_written = files::write(&path, "");
    }
}

/// Records a use of a folder of the cache; others are not the cache's to remove.
pub(super) fn folder(session: &Session, folder: &Path) {
    if let (true, Some(name)) = (folder.starts_with(&session.cache), folder.file_name()) {
        now(session, &name.to_string_lossy());
    }
}

/// The last use, in seconds since 1970.
pub(super) fn last(session: &Session, name: &str) -> Option<u64> {
    let (_, _, time) = state::stamp_of(&stamp(session, name))?;
    u64::try_from(time / 1_000_000_000).ok()
}

/// Forgets a thing that was removed.
pub(super) fn forget(session: &Session, name: &str) -> Result<(), FileError> {
    files::remove_file(&stamp(session, name))
}

/// Says that this run uses the cache, until the lock is dropped; waits while another one removes things.
pub(super) fn hold(session: &Session) -> Result<FileLock, FileError> {
    files::lock_shared(&session.cache.join("used.lock"), || {
        session.report.note("waiting for another process that is removing entries from the cache");
    })
}

/// Keeps others from using the cache, unless one does already.
pub(super) fn hold_alone(session: &Session) -> Result<Option<FileLock>, FileError> {
    files::try_lock(&session.cache.join("used.lock"))
}
