//! Frees what no commit names any more.
//!
//! Owns: which blobs a commit needs: all commits of all kernels count, those behind no ref as well, since clients pin ids.
//! Never: runs beside a server, which holds the lock; removes anything while a commit cannot be read.

use std::collections::HashSet;

use crate::name::{RepoId, Sha256};

use super::{Store, StoreError, disk};

/// Whether blobs are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// They are.
    Remove,
    /// They are counted.
    DryRun,
}

/// What was freed, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FreedSpace {
    /// Blobs.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blobs that stay.
    pub kept: u64,
}

impl Store {
    /// Removes blobs that no commit names, and the notes that they were sent.
    ///
    /// # Errors
    /// A commit or tree is damaged: what it names is not known, so nothing is removed. Or the disk fails.
    pub fn collect(&self, sweep: Sweep) -> Result<FreedSpace, StoreError> {
        let repos = self.list()?;
        let mut named = HashSet::new();
        for repo in &repos {
            self.name_blobs(repo, &mut named)?;
        }
        let mut freed = FreedSpace::default();
        let shards = self.root.join("blobs/sha256");
        for shard in disk::names(&shards)? {
            let folder = shards.join(&shard);
            for rest in disk::names(&folder)? {
                // Another file is not ours to remove.
                let Ok(digest) = format!("{shard}{rest}").parse::<Sha256>() else { continue };
                if named.contains(&digest) {
                    freed.kept += 1;
                    continue;
                }
                let path = folder.join(&rest);
                freed.bytes += disk::size(&path)?.unwrap_or_default();
                freed.files += 1;
                if sweep == Sweep::Remove {
                    disk::remove(&path)?;
                    tracing::debug!(target: "storage", "gc: removed blob {digest}");
                }
            }
        }
        if sweep == Sweep::Remove {
            for repo in &repos {
                let marks = self.folder(repo).join("lfs");
                for name in disk::names(&marks)? {
                    if name.parse::<Sha256>().is_ok_and(|digest| !named.contains(&digest)) {
                        disk::remove(&marks.join(&name))?;
                    }
                }
            }
        }
        tracing::info!(target: "storage", "gc: {sweep:?}, {} bytes in {} files, {} files stay", freed.bytes, freed.files, freed.kept);
        Ok(freed)
    }

    fn name_blobs(&self, repo: &RepoId, named: &mut HashSet<Sha256>) -> Result<(), StoreError> {
        for name in disk::names(&self.folder(repo).join("commits"))? {
            let commit = self.commit_of(repo, &name.parse()?)?;
            // Many commits have a tree in common.
            if named.insert(commit.tree.clone()) {
                let tree = self.tree(&commit.tree)?;
                named.extend(tree.files.iter().map(|entry| entry.digest.clone()));
            }
        }
        Ok(())
    }
}
