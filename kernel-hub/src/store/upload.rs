//! Large files, by LFS: received under a temporary name, named by their digest when it is the one that was promised.
//!
//! Owns: which large files were sent to which kernel; only those can be in its commits.
//! Never: keeps a byte of what turned out to be something else.

use ring::digest::{Context, SHA256};

use crate::name::{RepoId, Sha256, shown};

use super::disk::{self, Temporary};
use super::{Store, StoreError};

/// So many bytes at most wait in memory for the disk, so that the end of an upload does not take long.
const UNSYNCED: u64 = 256 * 1024 * 1024;

/// A file on its way.
pub struct Upload {
    temporary: Temporary,
    context: Context,
    received: u64,
    unsynced: u64,
    digest: Sha256,
    size: u64,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("digest", &self.digest).field("received", &self.received).finish()
    }
}

impl Store {
    /// Begins to receive a file.
    pub fn receive(&self, repo: &RepoId, digest: Sha256, size: u64) -> Result<Upload, StoreError> {
        self.must_have(repo)?;
        let temporary = Temporary::new(&self.temporaries())?;
        Ok(Upload { temporary, context: Context::new(&SHA256), received: 0, unsynced: 0, digest, size })
    }

    /// Ends it: when this returns, the content is on the disk and can be in a commit of the kernel.
    pub fn finish(&self, repo: &RepoId, upload: Upload) -> Result<(), StoreError> {
        let Upload { temporary, context, received, digest, size, .. } = upload;
        if received != size {
            return Err(StoreError::Refused(format!("{received} bytes received, {size} announced")));
        }
        let found = Sha256::of_bytes(context.finish().as_ref());
        if found != digest {
            tracing::warn!(target: "storage", "{repo}: digest mismatch: the upload announced {digest}, got {found}");
            return Err(StoreError::Refused(format!(
                "hash mismatch: the upload announced {digest}, got {found}"
            )));
        }
        // In place of one that is there: that one may be damaged.
        temporary.keep_as(&self.blob(&digest))?;
        self.note_sound(&digest)?;
        disk::write(&self.temporaries(), &self.mark_of(repo, &digest), format!("{size}\n").as_bytes())?;
        tracing::info!(target: "storage", "{repo}: large file {digest} stored, {size} bytes");
        Ok(())
    }

    /// The size of a large file that was sent to this kernel. That another one has it does not count: who knows a
    /// digest need not have the content.
    /// One that is damaged is to be sent again; `budget` is how many bytes may be read to find out.
    pub fn sent(&self, repo: &RepoId, digest: &Sha256, budget: &mut u64) -> Result<Option<u64>, StoreError> {
        if disk::size(&self.mark_of(repo, digest))?.is_none() {
            return Ok(None);
        }
        let Some(size) = disk::size(&self.blob(digest))? else { return Ok(None) };
        Ok(self.is_sound_within(digest, size, budget)?.then_some(size))
    }

    fn mark_of(&self, repo: &RepoId, digest: &Sha256) -> std::path::PathBuf {
        self.folder(repo).join("lfs").join(digest.as_str())
    }
}

impl Upload {
    /// Takes some bytes.
    ///
    /// # Errors
    /// They are more than were promised, or the disk fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.received += bytes.len() as u64;
        if self.received > self.size {
            let (digest, size) = (shown(self.digest.as_str()), self.size);
            return Err(StoreError::Refused(format!(
                "the upload has more than the announced {size} bytes of {digest}"
            )));
        }
        self.context.update(bytes);
        self.temporary.write(bytes)?;
        self.unsynced += bytes.len() as u64;
        if self.unsynced >= UNSYNCED {
            self.temporary.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }
}
