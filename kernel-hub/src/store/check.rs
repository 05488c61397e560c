//! Whether everything that a ref leads to is there.
//!
//! Owns: what is looked at, at the start and on demand.
//! Never: mends anything.

use std::collections::HashSet;

use crate::causes::chain;
use crate::name::{CommitId, RepoId, Sha256};

use super::sound::digest_of;
use super::{Store, StoreError};

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
        let mut seen = CheckedFiles::default();
        for repo in self.list()? {
            let refs = match self.refs(&repo) {
                Ok(refs) => refs,
                Err(error) => {
                    problems.push(format!("{repo}: {error}"));
                    continue;
                }
            };
            for (name, id) in refs.branches.iter().chain(&refs.tags) {
                let mut next = Some(id.clone());
                // Branches have most of their history in common.
                while let Some(id) = next.filter(|id| seen.commits.insert((repo.clone(), id.clone()))) {
                    next = match self.check_commit(&repo, &id, depth, &mut seen.files, &mut problems) {
                        Ok(parent) => parent.filter(|_| depth == Depth::Everything),
                        Err(error) => {
                            problems.push(format!("{repo}, {name}, {id}: {error}"));
                            None
                        }
                    };
                }
            }
        }
        Ok(problems)
    }

    /// Looks at a commit and its files; says what was before it.
    fn check_commit(
        &self,
        repo: &RepoId,
        id: &CommitId,
        depth: Depth,
        seen: &mut HashSet<Sha256>,
        problems: &mut Vec<String>,
    ) -> Result<Option<CommitId>, StoreError> {
        let snapshot = self.snapshot_of(repo, id.clone())?;
        for entry in snapshot.tree.files.iter().filter(|entry| seen.insert(entry.digest.clone())) {
            let wrong = match self.open_blob(entry) {
                Err(error) => Some(chain(&error)),
                Ok(_) if depth == Depth::Heads => None,
                Ok(file) => match digest_of(file) {
                    Ok(digest) if digest == entry.digest => None,
                    Ok(_) => Some(format!("digest mismatch: {}", self.blob(&entry.digest).display())),
                    Err(error) => Some(format!("{}: {error}", self.blob(&entry.digest).display())),
                },
            };
            problems.extend(wrong.map(|wrong| format!("{repo}, {id}, {}: {wrong}", entry.path)));
        }
        Ok(snapshot.commit.parent.clone())
    }
}

/// What was looked at.
#[derive(Debug, Default)]
struct CheckedFiles {
    commits: HashSet<(RepoId, CommitId)>,
    files: HashSet<Sha256>,
}
