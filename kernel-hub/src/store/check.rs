//! Whether everything that a ref leads to is there.
//!
//! Owns: what is looked at, at the start and on demand.
//! Never: mends anything.

use std::collections::HashSet;

use crate::name::{RepoId, Revision, Sha256};

use super::{Store, StoreError, disk, objects};

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The heads: their commits, trees, and sizes of files.
    Heads,
    /// All commits, and the digest of every file.
    Everything,
}

impl Store {
    /// Everything that is wrong, in words; empty when nothing is.
    ///
    /// # Errors
    /// The disk fails; what is merely missing or damaged is in the list.
    pub fn check(&self, depth: Depth) -> Result<Vec<String>, StoreError> {
        let mut problems = Vec::new();
        let mut seen = HashSet::new();
        for repo in self.list()? {
            let refs = match self.refs(&repo) {
                Ok(refs) => refs,
                Err(error) => {
                    problems.push(format!("{repo}: {error}"));
                    continue;
                }
            };
            for (name, id) in refs.branches.iter().chain(&refs.tags) {
                let most = if depth == Depth::Everything { usize::MAX } else { 1 };
                match self.history(&repo, &Revision::Commit(id.clone()), most) {
                    Ok(history) => {
                        for (id, _) in history {
                            self.check_commit(&repo, &id, depth, &mut seen, &mut problems);
                        }
                    }
                    Err(error) => problems.push(format!("{repo}, {name}: {error}")),
                }
            }
        }
        Ok(problems)
    }

    fn check_commit(
        &self,
        repo: &RepoId,
        id: &crate::name::CommitId,
        depth: Depth,
        seen: &mut HashSet<Sha256>,
        problems: &mut Vec<String>,
    ) {
        let snapshot = match self.snapshot_of(repo, id.clone()) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                problems.push(format!("{repo}, {id}: {error}"));
                return;
            }
        };
        for entry in &snapshot.tree.files {
            if !seen.insert(entry.digest.clone()) {
                continue;
            }
            let wrong = match self.open_blob(entry) {
                Err(error) => Some(error.to_string()),
                Ok(_) if depth == Depth::Heads => None,
                Ok(_) => match disk::read(&self.blob(&entry.digest)) {
                    Ok(Some(bytes)) if objects::sha256(&bytes) == entry.digest => None,
                    Ok(_) => Some("its digest is another one".to_owned()),
                    Err(error) => Some(error.to_string()),
                },
            };
            problems.extend(wrong.map(|wrong| format!("{repo}, {id}, {}: {wrong}", entry.path)));
        }
    }
}
