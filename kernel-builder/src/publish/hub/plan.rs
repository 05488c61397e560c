//! What has to change on a hub, decided without changing it.
//!
//! Owns: what is new, what is stale, which commits that makes. Never: asks or sends anything.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::hub::read::Entry;
use crate::hub::write::{Mode, Operation};

use super::local::Local;

/// The most lines of a commit, as huggingface_hub keeps it.
pub const OPERATIONS: usize = 1000;
/// The most bytes of regular files in a commit: they travel in one request.
pub const INLINE: u64 = 48 << 20;
/// What only this program writes: files there that a package does not have are stale.
const OURS: &str = "build/";
/// Above it, the Hub keeps a file as a large one whatever is in it. Only a guess for `--dry-run`: the hub decides.
const LARGE: u64 = 10 << 20;

/// Whether files that a package does not have stay in the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleFiles {
    /// They go.
    Delete,
    /// They stay.
    Keep,
}

/// What has to change on one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The branch.
    pub branch: String,
    /// Where it is; nothing when it is to be made.
    pub head: Option<String>,
    /// The commit whose files it was compared with; nothing when there is none.
    pub base: Option<String>,
    /// Files to send.
    pub put: Vec<Local>,
    /// Paths to delete.
    pub delete: Vec<String>,
    /// Files that are there already.
    pub same: usize,
}

impl Change {
    /// Whether the branch is as it should be.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.delete.is_empty()
    }
}

/// A row of a plan, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The path in the repository.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// How the hub will keep it, as far as can be told without sending a part of it.
    pub mode: Mode,
}

/// What of `files` a branch lacks, and what it has too much.
pub fn compare(
    branch: &str,
    head: Option<&str>,
    files: &[Local],
    there: &[Entry],
    stale: StaleFiles,
) -> Change {
    let known: BTreeMap<&str, &Entry> = there.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    let is_there = |local: &&Local| known.get(local.path.as_str()).is_some_and(|entry| same(local, entry));
    let (same, put): (Vec<&Local>, Vec<&Local>) = files.iter().partition(is_there);
    let wanted: BTreeSet<&str> = files.iter().map(|local| local.path.as_str()).collect();
    let is_stale = |path: &str| {
        stale == StaleFiles::Delete
            // A branch that gets no build, such as the card's, has none that is stale.
            && wanted.iter().any(|path| path.starts_with(OURS))
            && path.starts_with(OURS)
            && !wanted.contains(path)
    };
    let delete = known.keys().copied().filter(|path| is_stale(path)).map(str::to_owned).collect();
    let put = put.into_iter().cloned().collect();
    let head = head.map(str::to_owned);
    Change { branch: branch.to_owned(), base: head.clone(), head, put, delete, same: same.len() }
}

/// Whether a file here and one there have one content.
pub(super) fn same(local: &Local, entry: &Entry) -> bool {
    match &entry.lfs {
        Some(pointer) => pointer.oid == local.sha256,
        None => entry.oid == local.blob,
    }
}

/// Whether a tree has these files, and none of `gone`.
pub fn has(there: &[Entry], files: &[Local], gone: &[String]) -> bool {
    let found = |local: &Local| there.iter().any(|entry| entry.path == local.path && same(local, entry));
    files.iter().all(found) && !there.iter().any(|entry| gone.contains(&entry.path))
}

/// What a commit leaves behind: the files that it adds, as they are among `put`, and the paths that it deletes.
pub fn meant(operations: &[Operation], put: &[(Local, Mode)]) -> (Vec<Local>, Vec<String>) {
    let (mut files, mut gone) = (Vec::new(), Vec::new());
    for operation in operations {
        match operation {
            Operation::Add { path, .. } | Operation::Point { path, .. } => {
                files.extend(put.iter().map(|(local, _)| local).find(|local| local.path == *path).cloned());
            }
            Operation::Delete { path } => gone.push(path.clone()),
        }
    }
    (files, gone)
}

/// How a hub will probably keep a file: as it keeps it now, else large when it is large or no text.
pub fn guess(local: &Local, there: &[Entry]) -> Mode {
    let now = there.iter().find(|entry| entry.path == local.path);
    let large = match now {
        Some(entry) => entry.lfs.is_some(),
        None => local.size > LARGE || local.sample.contains(&0),
    };
    if large && local.size > 0 { Mode::Lfs } else { Mode::Regular }
}

/// The commits that a change needs: files in their order, deletions last, none too long or too heavy.
pub fn commits(put: &[(Local, Mode)], delete: &[String]) -> Vec<Vec<Operation>> {
    let adds = put.iter().map(|(local, mode)| match mode {
        Mode::Regular => (Operation::Add { path: local.path.clone(), file: local.file.clone() }, local.size),
        Mode::Lfs => {
            let (path, sha256) = (local.path.clone(), local.sha256.clone());
            (Operation::Point { path, sha256, size: local.size }, 0)
        }
    });
    let deletions = delete.iter().map(|path| (Operation::Delete { path: path.clone() }, 0));
    let mut commits: Vec<Vec<Operation>> = Vec::new();
    let mut inline = 0;
    for (operation, size) in adds.chain(deletions) {
        match commits.last_mut() {
            Some(last) if last.len() < OPERATIONS && inline + size <= INLINE => {
                inline += size;
                last.push(operation);
            }
            _ => {
                inline = size;
                commits.push(vec![operation]);
            }
        }
    }
    commits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::read::Pointer;
    use proptest::prelude::*;

    fn local(path: &str, name: &str, size: u64) -> Local {
        let (sha256, blob) = (format!("256-{name}"), format!("1-{name}"));
        let (file, sample) = (path.into(), name.as_bytes().to_vec());
        Local { path: path.to_owned(), file, size, sample, sha256, blob }
    }

    fn there(path: &str, name: &str, mode: Mode) -> Entry {
        let lfs = (mode == Mode::Lfs).then(|| Pointer { oid: format!("256-{name}") });
        let oid = if lfs.is_some() { "pointer".to_owned() } else { format!("1-{name}") };
        Entry { kind: "file".to_owned(), path: path.to_owned(), size: 1, oid, lfs }
    }

    #[test]
    fn only_what_differs_is_sent_and_only_builds_are_deleted() {
        let files =
            [local("build/a/x.so", "x", 9), local("build/a/y.py", "y", 9), local("benchmarks/b.py", "b", 9)];
        let remote = [
            there("build/a/x.so", "x", Mode::Lfs),
            there("build/a/y.py", "older", Mode::Regular),
            there("build/old/z.so", "z", Mode::Lfs),
            there("README.md", "r", Mode::Regular),
            there("benchmarks/old.py", "o", Mode::Regular),
            there(".gitattributes", "g", Mode::Regular),
        ];
        let change = compare("v1", Some("c0"), &files, &remote, StaleFiles::Delete);
        let put: Vec<&str> = change.put.iter().map(|local| local.path.as_str()).collect();
        assert_eq!(put, ["build/a/y.py", "benchmarks/b.py"]);
        assert_eq!((change.delete, change.same), (vec!["build/old/z.so".to_owned()], 1));
        assert!(compare("v1", None, &files, &remote, StaleFiles::Keep).delete.is_empty());
        // The card's branch loses nothing.
        assert!(
            compare("main", None, &[local("README.md", "n", 1)], &remote, StaleFiles::Delete)
                .delete
                .is_empty()
        );
    }

    #[test]
    fn what_a_hub_will_do_is_guessed_by_what_it_did() {
        let mut data = local("a", "x\0", 3);
        assert_eq!(guess(&data, &[]), Mode::Lfs);
        assert_eq!(guess(&data, &[there("a", "q", Mode::Regular)]), Mode::Regular);
        data.size = 0;
        assert_eq!(guess(&data, &[]), Mode::Regular);
        assert_eq!(guess(&local("a", "x", LARGE + 1), &[]), Mode::Lfs);
    }

    proptest! {
        #[test]
        fn commits_hold_everything_once_and_none_is_too_long_or_heavy(
            sizes in proptest::collection::vec((0u64..(20 << 20), any::<bool>()), 0..2500),
            gone in 0usize..1500,
        ) {
            let put: Vec<(Local, Mode)> = sizes.iter().enumerate()
                .map(|(at, (size, large))| (local(&format!("f{at}"), "f", *size), if *large { Mode::Lfs } else { Mode::Regular }))
                .collect();
            let delete: Vec<String> = (0..gone).map(|at| format!("d{at}")).collect();
            let commits = commits(&put, &delete);
            let flat: Vec<&Operation> = commits.iter().flatten().collect();
            prop_assert_eq!(flat.len(), put.len() + delete.len());
            let first = flat.iter().position(|one| matches!(one, Operation::Delete { .. })).unwrap_or(flat.len());
            prop_assert_eq!(first, put.len());
            let size_of: BTreeMap<&str, u64> = put.iter().map(|(local, _)| (local.path.as_str(), local.size)).collect();
            for commit in &commits {
                prop_assert!(!commit.is_empty() && commit.len() <= OPERATIONS);
                let heavy: u64 = commit.iter().map(|one| match one {
                    Operation::Add { path, .. } => size_of[path.as_str()],
                    _ => 0,
                }).sum();
                prop_assert!(heavy <= INLINE || commit.len() == 1);
            }
        }
    }
}
