//! A folder that several machines share, e.g. on a network file system: read before something is made, written after.
//!
//! It holds the same files as the cache itself, `objects` and `steps`, and both are checked by their digests: what
//! another machine left half-written or damaged counts as absent. A folder that is not there, or that refuses, is told
//! once and the build goes on.
//!
//! Owns: `KERNELWRIGHT_REMOTE_CACHE`. Never: makes the folder (a share that is not mounted would be made on this disk),
//! removes what is intact.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::entry;
use super::step::{Step, object_below, step_below};
use crate::base::causes::chain;
use crate::base::digest::Digest;
use crate::base::env;
use crate::base::files::{self, FileError};

/// The shared folder, and what went wrong with it.
#[derive(Debug)]
pub(super) struct Remote {
    root: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    trouble: Option<String>,
    reads: bool,
    writes: bool,
}

impl Remote {
    /// The folder that the environment names.
    pub(super) fn named() -> Option<Self> {
        env::text(env::REMOTE_CACHE).map(|root| Self::at(&env::absolute(Path::new(&root))))
    }

    /// The folder at `root`.
    pub(super) fn at(root: &Path) -> Self {
        let there = files::is_dir(root);
        let trouble = (!there).then(|| {
            format!(
                "the shared compile cache `{}` is not an accessible folder; the build ran without it",
                root.display()
            )
        });
        Self { root: root.to_owned(), state: Mutex::new(State { trouble, reads: there, writes: there }) }
    }

    /// What went wrong, in a sentence.
    pub(super) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    /// What another run left behind this key.
    pub(super) fn fetch(&self, key: &Digest) -> Option<(Step, Vec<u8>)> {
        if !self.state().reads {
            return None;
        }
        let step: Step = entry::read(&step_below(&self.root, key))?;
        let blob = object_below(&self.root, &step.object);
        let bytes = files::read(&blob).ok()?;
        if Digest::blake3(&bytes) != step.object {
            // Where it cannot be removed, it stays and is found damaged again.
            let _stays = files::remove_file(&blob);
            return None;
        }
        Some((step, bytes))
    }

    /// Leaves what was made for other machines.
    pub(super) fn send(&self, key: &Digest, step: &Step, bytes: &[u8]) {
        if !self.state().writes {
            return;
        }
        if let Err(error) = self.put(key, step, bytes) {
            let mut state = self.state();
            state.writes = false;
            state.trouble = Some(format!(
                "failed to write to the shared compile cache `{}`, so nothing more was stored there: {}",
                self.root.display(),
                chain(&error)
            ));
        }
    }

    fn put(&self, key: &Digest, step: &Step, bytes: &[u8]) -> Result<(), FileError> {
        // Compared, not only looked for: what is there may be damaged.
        files::write_if_changed(&object_below(&self.root, &step.object), bytes)?;
        entry::write(&step_below(&self.root, key), step)?;
        Ok(())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
