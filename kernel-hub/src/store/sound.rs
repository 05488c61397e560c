//! Whether the content of a blob has the digest that is its name.
//!
//! Owns: looking once a run at each blob, and again when the file was changed.
//! Never: mends one; who sends the content again does.

use std::fs::File;
use std::io::{self, Read};
use std::sync::PoisonError;

use ring::digest::{Context, SHA256};

use crate::name::Sha256;

use super::disk::{self, Stamp};
use super::objects::Entry;
use super::{Store, StoreError, damaged, guard};

/// So many blobs are remembered.
const REMEMBERED: usize = 200_000;

impl Store {
    /// The content of a file, after a look whether it is the right one.
    pub fn open_sound(&self, entry: &Entry) -> Result<File, StoreError> {
        let (file, path) = (self.open_blob(entry)?, self.blob(&entry.digest));
        let stamp = Stamp::read(&file).map_err(disk::at(&path))?;
        if self.has_digest(&entry.digest, &file, stamp).map_err(disk::at(&path))? {
            Ok(file)
        } else {
            Err(damaged(&path, "its digest does not match"))
        }
    }

    /// Whether there is a blob of this size and digest.
    pub fn is_sound(&self, digest: &Sha256, size: u64) -> Result<bool, StoreError> {
        self.is_sound_within(digest, size, &mut u64::MAX.clone())
    }

    /// The same for a request that must not take long: `budget` is how many bytes it may read. A larger blob that nobody
    /// has looked at is taken to be sound.
    pub fn is_sound_within(&self, digest: &Sha256, size: u64, budget: &mut u64) -> Result<bool, StoreError> {
        let path = self.blob(digest);
        let Some(file) = disk::open(&path)? else { return Ok(false) };
        let stamp = Stamp::read(&file).map_err(disk::at(&path))?;
        if stamp.size() != size {
            return Ok(false);
        }
        if guard(&self.sound).get(digest) == Some(&stamp) {
            return Ok(true);
        }
        match budget.checked_sub(size) {
            Some(left) => *budget = left,
            None => return Ok(true),
        }
        Ok(self.has_digest(digest, &file, stamp).map_err(disk::at(&path))?)
    }

    fn has_digest(&self, digest: &Sha256, file: &File, stamp: Stamp) -> io::Result<bool> {
        let known = || guard(&self.sound).get(digest) == Some(&stamp);
        if known() {
            return Ok(true);
        }
        // Many may ask at once for a file that is new to this run: one of them reads it.
        let place = usize::from(digest.as_str().as_bytes()[0]) % self.looking.len();
        let _alone = self.looking[place].lock().unwrap_or_else(PoisonError::into_inner);
        if known() {
            return Ok(true);
        }
        let sound = digest_of(file)? == *digest;
        if sound {
            self.remember(digest, stamp);
        } else {
            tracing::warn!(target: "storage", "digest mismatch: the content of blob {digest} on disk does not match its digest");
        }
        Ok(sound)
    }

    /// Remembers a blob whose content was just checked.
    pub(super) fn note_sound(&self, digest: &Sha256) -> Result<(), StoreError> {
        if let Some(stamp) = disk::stamp(&self.blob(digest))? {
            self.remember(digest, stamp);
        }
        Ok(())
    }

    fn remember(&self, digest: &Sha256, stamp: Stamp) {
        let mut sound = guard(&self.sound);
        if sound.len() >= REMEMBERED {
            sound.clear();
        }
        sound.insert(digest.clone(), stamp);
    }
}

/// Read a block at a time: files may be larger than the memory.
pub(super) fn digest_of(mut file: impl Read) -> io::Result<Sha256> {
    let (mut context, mut block) = (Context::new(&SHA256), vec![0; 1 << 20]);
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(Sha256::of_bytes(context.finish().as_ref())),
            Ok(count) => context.update(block.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
