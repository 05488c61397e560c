//! The compile cache: what a command made from given inputs, shared between projects and, through a folder, machines.
//!
//! Two ways lead to an object. The direct one starts nothing: behind a unit's command, compiler and source lie outcomes,
//! each with the files that were read (from the compiler's own dependency file) and their digests; an outcome is used
//! when all of them are as they were. Behind a command without its framework lie outcomes for all frameworks, which are
//! used when the framework at hand has nothing that was asked for, too. The other way is by content: the key names
//! everything that the bytes follow from, such as preprocessed text, and does not care where a project or this cache
//! lies. (Both are ccache's: its manual, "How ccache works".)
//!
//! Owns: `<cache>/compile`: `objects` (bytes by digest), `units` (the direct way), `steps` (by content), `size.json`.
//! Never: runs a compiler, decides what a key is made of.

mod depfile;
mod direct;
mod entry;
mod remote;
mod seen;
mod step;
mod sweep;
mod texts;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

pub use depfile::parse as parse_depfile;
pub use seen::Dependency;
pub use texts::{TextQueries, foreign as foreign_text, own as own_text, watches};

use self::remote::Remote;
use self::seen::StampCache;
use self::step::{Step, object_below, step_below};
use crate::base::causes::chain;
use crate::base::digest::Digest;
use crate::base::files::{self, FileError};
use crate::base::report::Report;
use crate::base::session::Session;

/// What a command made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// The object.
    pub bytes: Vec<u8>,
    /// What the command printed (warnings).
    pub log: String,
    /// Whether it may be kept: not when an input changed while the command ran.
    pub lasting: bool,
}

/// A hit of the direct way: the object's digest and what the compiler had printed.
#[derive(Debug)]
pub struct DirectHit {
    /// Digest of the object.
    pub object: Digest,
    /// What the compiler printed.
    pub log: String,
    /// The files that were read.
    dependencies: Vec<Dependency>,
}

impl DirectHit {
    /// The files that were read, as the compiler named them.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.dependencies.iter().map(Dependency::path)
    }
}

/// Keys of a run that are being made.
#[derive(Debug, Default)]
struct Making {
    now: BTreeSet<String>,
    /// Those of which it turned out that nothing is made for all who wait.
    apart: BTreeSet<String>,
}

/// The cache below one folder.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    remote: Option<Remote>,
    /// Keys that a thread of this run is making something for.
    making: Mutex<Making>,
    made: Condvar,
    /// Files that the direct way has looked at in this run.
    seen: StampCache,
    /// Bytes that this run has added.
    written: AtomicU64,
}

impl Cache {
    /// The compile cache at `root`, on this machine alone.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            remote: None,
            making: Mutex::default(),
            made: Condvar::new(),
            seen: StampCache::new(root),
            written: AtomicU64::new(0),
        }
    }

    /// The compile cache of a run, with the shared folder that the environment names.
    pub fn open(session: &Session) -> Self {
        Self { remote: Remote::named(), ..Self::new(&session.cache.join("compile")) }
    }

    fn object_path(&self, digest: &Digest) -> PathBuf {
        object_below(&self.root, digest)
    }

    /// What `make` gives for this key, from the cache where an earlier call made it. The key names everything that the
    /// result follows from. Of several threads that ask at once, one makes it and the others wait.
    ///
    /// # Errors
    /// What `make` says, or the cache cannot be written.
    pub fn once<E: From<FileError>>(
        &self,
        key: &Digest,
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let made = self
            .once_told(key, || make().map(|bytes| CacheEntry { bytes, log: String::new(), lasting: true }))?;
        Ok(made.0.bytes)
    }

    /// [`once`](Self::once) with what the command printed; and whether `make` was called.
    ///
    /// # Errors
    /// What `make` says, or the cache cannot be written.
    pub fn once_told<E: From<FileError>>(
        &self,
        key: &Digest,
        make: impl FnOnce() -> Result<CacheEntry, E>,
    ) -> Result<(CacheEntry, bool), E> {
        let name = key.to_string();
        let _turn = self.turn(&name);
        if let Some(known) = self.recall(key) {
            tracing::debug!(target: "cache", "hit by content: {name}");
            return Ok((known, false));
        }
        if let Some(remote) = &self.remote
            && let Some((step, bytes)) = remote.fetch(key)
        {
            tracing::debug!(target: "cache", "hit in the shared folder: {name}");
            self.keep_step(key, &step, &bytes)?;
            return Ok((CacheEntry { bytes, log: step.log, lasting: true }, false));
        }
        tracing::debug!(target: "cache", "miss: nothing was made for {name}");
        let made = make()?;
        if made.lasting {
            let step = Step { object: Digest::blake3(&made.bytes), log: made.log.clone() };
            self.keep_step(key, &step, &made.bytes)?;
            if let Some(remote) = &self.remote {
                remote.send(key, &step, &made.bytes);
            }
        }
        Ok((made, true))
    }

    /// Whether something lies behind a key by content.
    pub fn has(&self, key: &Digest) -> bool {
        self.recall(key).is_some()
    }

    /// What lies behind a key by content; nothing when it or its bytes are missing or damaged.
    fn recall(&self, key: &Digest) -> Option<CacheEntry> {
        let place = step_below(&self.root, key);
        let step: Step = entry::read(&place)?;
        let bytes = self.bytes_of(&step.object)?;
        files::used(&place);
        Some(CacheEntry { bytes, log: step.log, lasting: true })
    }

    /// The bytes of this digest; a damaged file is removed.
    fn bytes_of(&self, digest: &Digest) -> Option<Vec<u8>> {
        let place = self.object_path(digest);
        let bytes = files::read(&place).ok()?;
        if Digest::blake3(&bytes) != *digest {
            tracing::warn!(target: "cache", "{} is damaged, and is removed", place.display());
            // Where it cannot be removed, it is found damaged again, which costs time.
            let _stays = files::remove_file(&place);
            return None;
        }
        files::used(&place);
        Some(bytes)
    }

    fn keep_step(&self, key: &Digest, step: &Step, bytes: &[u8]) -> Result<(), FileError> {
        self.keep(&step.object, bytes)?;
        let written = entry::write(&step_below(&self.root, key), step)?;
        self.written.fetch_add(written, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps bytes under their digest.
    fn keep(&self, digest: &Digest, bytes: &[u8]) -> Result<(), FileError> {
        let place = self.object_path(digest);
        // Compared, not only looked for: what is there may be damaged.
        if files::write_if_changed(&place, bytes)? {
            self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        } else {
            files::used(&place);
        }
        Ok(())
    }

    /// Puts the object of a direct hit at `place`; false where the cache no longer has it intact.
    ///
    /// # Errors
    /// `place` cannot be written.
    pub fn restore(&self, object: &Digest, place: &Path) -> Result<bool, FileError> {
        if files::read(place).is_ok_and(|bytes| Digest::blake3(&bytes) == *object) {
            files::used(&self.object_path(object));
            return Ok(true);
        }
        let Some(bytes) = self.bytes_of(object) else { return Ok(false) };
        files::write(place, bytes)?;
        Ok(true)
    }

    /// Waits until no other thread makes this key.
    fn turn(&self, name: &str) -> KeyClaim<'_> {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let mut making = self
            .made
            .wait_while(making, |making| making.now.contains(name))
            .unwrap_or_else(PoisonError::into_inner);
        making.now.insert(name.to_owned());
        KeyClaim { cache: self, name: name.to_owned() }
    }

    /// The right to make something that others may be able to use; waits while another thread has it. `None`: a thread
    /// gave it back [apart](KeyClaim::apart), so that each makes its own, at the same time.
    pub fn turn_for_all(&self, key: &Digest) -> Option<KeyClaim<'_>> {
        let name = key.to_string();
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let mut making = self
            .made
            .wait_while(making, |making| making.now.contains(&name) && !making.apart.contains(&name))
            .unwrap_or_else(PoisonError::into_inner);
        if making.apart.contains(&name) {
            return None;
        }
        making.now.insert(name.clone());
        Some(KeyClaim { cache: self, name })
    }

    /// Ends a run: what was not used for longest goes where the cache has become too large, and what went wrong with the
    /// shared folder is told.
    pub fn close(&self, report: &Report) {
        if let Err(error) = sweep::after(&self.root, self.written.load(Ordering::Relaxed), report) {
            report.warn(format!("failed to clean the compile cache: {}", chain(&error)));
        }
        if let Some(trouble) = self.remote.as_ref().and_then(Remote::trouble) {
            report.warn(trouble);
        }
    }
}

/// The right to make one key; over when dropped.
#[derive(Debug)]
pub struct KeyClaim<'a> {
    cache: &'a Cache,
    name: String,
}

impl KeyClaim<'_> {
    /// Gives the right back, with the news that what is made for this key is for nobody else.
    pub fn apart(self) {
        let mut making = self.cache.making.lock().unwrap_or_else(PoisonError::into_inner);
        making.apart.insert(self.name.clone());
    }
}

impl Drop for KeyClaim<'_> {
    fn drop(&mut self) {
        let mut making = self.cache.making.lock().unwrap_or_else(PoisonError::into_inner);
        making.now.remove(&self.name);
        self.cache.made.notify_all();
    }
}

#[cfg(test)]
mod tests;
