//! Locks between processes, as files.
//!
//! Owns: waiting that ends with ctrl-C. Never: knows what a lock is for.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::super::interrupt;
use super::error::{FileError, failed};
use super::open_for_resume;

/// A lock held by this process until dropped; a second process waits for it.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "held for its Drop")] File);

/// Takes the lock at `path`; `waiting` is called once when another process holds it.
pub fn lock(path: &Path, waiting: impl FnOnce()) -> Result<FileLock, FileError> {
    lock_as(path, FlockOperation::NonBlockingLockExclusive, waiting)
}

/// Takes a share in the lock at `path`: many hold it at a time, and none while a process has it alone.
pub fn lock_shared(path: &Path, waiting: impl FnOnce()) -> Result<FileLock, FileError> {
    lock_as(path, FlockOperation::NonBlockingLockShared, waiting)
}

fn lock_as(path: &Path, kind: FlockOperation, waiting: impl FnOnce()) -> Result<FileLock, FileError> {
    let file = open_for_resume(path)?;
    // Never the waiting kind of lock: it would not notice ctrl-C.
    let attempt = || flock(&file, kind);
    let (mut held, since) = (attempt(), Instant::now());
    let waits = held == Err(rustix::io::Errno::WOULDBLOCK);
    if waits {
        tracing::info!(target: "lock", "waiting for {}, which another process holds", path.display());
        waiting();
    }
    while held == Err(rustix::io::Errno::WOULDBLOCK) {
        if interrupt::requested() {
            return Err(failed("lock", path)(io::ErrorKind::Interrupted.into()));
        }
        std::thread::sleep(Duration::from_millis(100));
        held = attempt();
    }
    held.map_err(|error| failed("lock", path)(error.into()))?;
    if waits {
        tracing::info!(target: "lock", "got {} after {:.1} s", path.display(), since.elapsed().as_secs_f64());
    } else {
        tracing::debug!(target: "lock", "got {} at once", path.display());
    }
    Ok(FileLock(file))
}

/// Takes the lock at `path`, unless another process holds it.
pub fn try_lock(path: &Path) -> Result<Option<FileLock>, FileError> {
    let file = open_for_resume(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(FileLock(file))),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed("lock", path)(error.into())),
    }
}
