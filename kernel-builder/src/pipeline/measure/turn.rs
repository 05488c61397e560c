//! Turns on a GPU: one process at a time measures on it.
//!
//! Owns: where the lock of a GPU lies. Never: measures.
//!
//! The lock is in the cache, so it is seen by processes of one user on one machine.

use crate::base::files::{self, FileError, FileLock};
use crate::base::session::Session;
use crate::device::gpu::Gpu;
use crate::device::wire::DeviceProperties;
use crate::exit::Failure;
use crate::verify::{device, gpu_present};

/// The folder of the locks in the cache.
const FOLDER: &str = "turns";

/// Waits until no other process measures on this GPU. The turn ends when the result is dropped.
///
/// # Errors
/// The lock file cannot be written, or ctrl-C.
pub(crate) fn on(about: &DeviceProperties, session: &Session) -> Result<FileLock, FileError> {
    let path = session.cache.join(FOLDER).join(format!("{}.lock", about.uuid));
    files::lock(&path, || {
        session
            .report
            .note(format!("another process is measuring on this {}; waiting until it ends", about.name));
    })
}

/// [`on`] the GPU that this process would use. Without one there is nothing to wait for.
///
/// # Errors
/// As [`on`].
pub(crate) fn here(session: &Session) -> Result<Option<FileLock>, Failure> {
    if !gpu_present() {
        return Ok(None);
    }
    match device::device(&mut Gpu::new())? {
        Ok(about) => Ok(Some(on(&about, session)?)),
        // Whoever measures finds out by itself.
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::report::{MessageFormat, Report};

    #[test]
    fn a_gpu_has_one_turn_at_a_time() {
        let cache = files::scratch().unwrap();
        let session = Session {
            report: Report::new(MessageFormat::Human, true),
            cache: cache.path().to_owned(),
            offline: true,
            jobs: 1,
        };
        let about = |uuid: &str| DeviceProperties {
            name: "a GPU".to_owned(),
            capability: (9, 0),
            multiprocessors: 132,
            l2: 1,
            memory: 1,
            free: 1,
            shared: 1,
            threads: 1024,
            clock_khz: 1,
            driver: 13000,
            pci: String::new(),
            uuid: uuid.to_owned(),
            visible: vec![],
        };
        let turn = on(&about("GPU-1"), &session).unwrap();
        let lock =
            |uuid: &str| files::try_lock(&cache.path().join(FOLDER).join(format!("{uuid}.lock"))).unwrap();
        assert!(lock("GPU-1").is_none() && lock("GPU-2").is_some());
        drop(turn);
        assert!(lock("GPU-1").is_some());
    }
}
