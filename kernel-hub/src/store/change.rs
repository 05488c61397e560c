//! What changes a kernel: it is made, removed, its branches and tags, and commits.
//!
//! Owns: the order in which things reach the disk: blobs, tree, commit, and the ref last.
//! Never: moves a ref to anything that is not there, or from where it was not expected to be.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use crate::name::{CommitId, FilePath, RefName, RepoId, Revision, Sha256, shown};
use crate::wire::attributes;
use crate::wire::commit::{self, Operation};

use super::objects::{self, Commit, Entry, FORMAT, Tree};
use super::{READ_AT_ONCE, RefKind, Snapshot, Store, StoreError, disk};

/// Where a kernel says which files are large ones.
pub const ATTRIBUTES: &str = ".gitattributes";

/// Who changes something, and when.
#[derive(Debug, Clone)]
pub struct Author {
    /// The name of the token.
    pub name: String,
    /// Seconds since 1970.
    pub date: u64,
}

impl Store {
    /// Makes a kernel; its main has `.gitattributes`.
    pub fn create(&self, repo: &RepoId, author: &Author) -> Result<(), StoreError> {
        let _alone = self.writer(repo);
        if let Some(there) = self.spelled(repo)? {
            return Err(StoreError::Exists(format!("you already created the kernel repo `{there}`")));
        }
        // Under a temporary name first, so that it is there as a whole or not at all.
        let staged = self.temporaries().join(disk::random_name());
        let done = self.stage(&staged, author).and_then(|()| {
            let folder = self.folder(repo);
            if let Some(org) = folder.parent() {
                disk::folder(org)?;
            }
            Ok(disk::rename(&staged, &folder)?)
        });
        match &done {
            Ok(()) => tracing::info!(target: "storage", "{repo}: created by {}", author.name),
            Err(_) => disk::discard_folder(&staged),
        }
        done
    }

    fn stage(&self, staged: &Path, author: &Author) -> Result<(), StoreError> {
        for folder in ["", "commits", "refs", "refs/heads", "refs/tags", "lfs"] {
            disk::folder(&staged.join(folder))?;
        }
        let commit = self.first_commit(author)?;
        let encoded = objects::encode(&commit);
        let id = id_of(&encoded)?;
        disk::write(&self.temporaries(), &staged.join("commits").join(id.as_str()), &encoded)?;
        let main = staged.join("refs/heads").join(RefName::main().file_name());
        disk::write(&self.temporaries(), &main, format!("{id}\n").as_bytes())?;
        Ok(())
    }

    fn first_commit(&self, author: &Author) -> Result<Commit, StoreError> {
        let path = ATTRIBUTES.parse()?;
        let attributes = Entry::regular(path, attributes::FIRST.as_bytes());
        self.put_blob(&attributes.digest, attributes::FIRST.as_bytes())?;
        Ok(Commit {
            format: FORMAT,
            tree: self.put_tree(&Tree::from_files(vec![attributes]))?,
            parent: None,
            author: author.name.clone(),
            date: author.date,
            title: "initial commit".to_owned(),
            message: String::new(),
        })
    }

    /// Removes a kernel. Its blobs stay: others may have the same.
    pub fn delete(&self, repo: &RepoId) -> Result<(), StoreError> {
        let _alone = self.writer(repo);
        self.must_have(repo)?;
        disk::remove_folder(&self.temporaries(), &self.folder(repo))?;
        tracing::info!(target: "storage", "{repo}: deleted");
        Ok(())
    }

    /// Makes a branch or a tag.
    pub fn create_ref(
        &self,
        repo: &RepoId,
        kind: RefKind,
        name: &RefName,
        start: &Revision,
    ) -> Result<CommitId, StoreError> {
        let _alone = self.writer(repo);
        let id = self.resolve(repo, start)?;
        if self.read_ref(repo, kind, name)?.is_some() {
            return Err(StoreError::Exists(format!(
                "Reference refs/{}/{name} already exists",
                kind.folder()
            )));
        }
        self.write_ref(repo, kind, name, &id)?;
        tracing::info!(target: "storage", "{repo}: {kind:?} {name} created at {id}");
        Ok(id)
    }

    /// Removes a branch or a tag; its commits stay.
    pub fn delete_ref(&self, repo: &RepoId, kind: RefKind, name: &RefName) -> Result<(), StoreError> {
        let _alone = self.writer(repo);
        if kind == RefKind::Branch && *name == RefName::main() {
            return Err(StoreError::Refused("Cannot delete refs/heads/main".to_owned()));
        }
        self.must_have(repo)?;
        if self.read_ref(repo, kind, name)?.is_none() {
            return Err(StoreError::NoRevision { repo: repo.clone(), revision: name.to_string() });
        }
        disk::remove(&self.ref_file(repo, kind, name))?;
        tracing::info!(target: "storage", "{repo}: {kind:?} {name} deleted");
        Ok(())
    }

    /// Changes a branch, with the contents that are in the body of the request. When this returns, the change is on the disk; a commit that changes nothing is the head again.
    pub fn commit(
        &self,
        repo: &RepoId,
        branch: &RefName,
        asked: commit::Commit,
        body: &mut File,
        author: &Author,
    ) -> Result<CommitId, StoreError> {
        self.must_have(repo)?;
        // What does not depend on the head is done before the others have to wait.
        let changes = self.prepare(repo, asked.operations, body)?;
        let _alone = self.writer(repo);
        let head = self.snapshot(repo, &Revision::Branch(branch.clone()))?;
        if let Some(parent) = asked.parent.filter(|parent| !commit::is_parent(parent, &head.id)) {
            tracing::info!(target: "storage", "{repo}: commit to {branch} refused, its head is {}", head.id);
            return Err(StoreError::Moved { head: head.id, parent });
        }
        let tree = apply(&head, changes)?;
        if tree == *head.tree {
            tracing::debug!(target: "storage", "{repo}: commit to {branch} changes nothing");
            return Ok(head.id);
        }
        let commit = Commit {
            format: FORMAT,
            tree: self.put_tree(&tree)?,
            parent: Some(head.id),
            author: author.name.clone(),
            date: author.date,
            title: asked.summary,
            message: asked.description,
        };
        let encoded = objects::encode(&commit);
        let id = id_of(&encoded)?;
        disk::write(&self.temporaries(), &self.commit_file(repo, &id), &encoded)?;
        self.write_ref(repo, RefKind::Branch, branch, &id)?;
        tracing::info!(target: "storage", "{repo}: commit {id} to {branch} by {}, {} files", author.name, tree.files.len());
        Ok(id)
    }

    /// Brings every content to the disk.
    fn prepare(
        &self,
        repo: &RepoId,
        operations: Vec<Operation>,
        body: &mut File,
    ) -> Result<Vec<Change>, StoreError> {
        let mut changes = Vec::with_capacity(operations.len());
        let mut budget = READ_AT_ONCE;
        for operation in operations {
            changes.push(match operation {
                Operation::Put { path, content } => Change::Put(self.put_content(path, &content, body)?),
                Operation::Link { path, digest, size } => {
                    let there = self.sent(repo, &digest, &mut budget)?.ok_or_else(|| {
                        let path = shown(path.as_str());
                        StoreError::Refused(format!(
                            "the content of {path} (sha256:{digest}) was not sent; upload it by LFS first"
                        ))
                    })?;
                    if size.is_some_and(|size| size != there) {
                        let path = shown(path.as_str());
                        return Err(StoreError::Refused(format!(
                            "{path} has {there} bytes, which is not the size in the commit"
                        )));
                    }
                    Change::Put(Entry::large(path, digest, there))
                }
                Operation::Delete(path) => Change::Delete(path),
                Operation::DeleteFolder(path) => Change::DeleteFolder(path),
            });
        }
        Ok(changes)
    }

    fn put_tree(&self, tree: &Tree) -> Result<Sha256, StoreError> {
        let encoded = objects::encode(tree);
        let digest = objects::sha256(&encoded);
        self.put_blob(&digest, &encoded)?;
        Ok(digest)
    }

    pub(super) fn put_blob(&self, digest: &Sha256, content: &[u8]) -> Result<(), StoreError> {
        let path = self.blob(digest);
        if self.is_sound(digest, content.len() as u64)? {
            // Whoever wrote it may not have come to this yet.
            disk::sync_folder_of(&path)?;
            return Ok(());
        }
        disk::write(&self.temporaries(), &path, content)?;
        tracing::debug!(target: "storage", "blob {digest} stored, {} bytes", content.len());
        self.note_sound(digest)
    }

    fn write_ref(
        &self,
        repo: &RepoId,
        kind: RefKind,
        name: &RefName,
        id: &CommitId,
    ) -> Result<(), StoreError> {
        disk::write(&self.temporaries(), &self.ref_file(repo, kind, name), format!("{id}\n").as_bytes())?;
        Ok(())
    }
}

/// A change whose content is on the disk.
#[derive(Debug)]
enum Change {
    Put(Entry),
    Delete(FilePath),
    DeleteFolder(FilePath),
}

fn apply(head: &Snapshot, changes: Vec<Change>) -> Result<Tree, StoreError> {
    let mut files: BTreeMap<FilePath, Entry> =
        head.tree.files.iter().map(|entry| (entry.path.clone(), entry.clone())).collect();
    // The client looks for these words (`create_commit`).
    let absent = |path: &FilePath| StoreError::NoEntry {
        what: format!("A file with this name doesn't exist: {}", shown(path.as_str())),
        commit: Some(head.id.clone()),
    };
    for change in changes {
        match change {
            Change::Put(entry) => {
                files.insert(entry.path.clone(), entry);
            }
            // A client that does not know what is there calls a folder a file.
            Change::Delete(path) if files.remove(&path).is_some() => {}
            Change::Delete(folder) | Change::DeleteFolder(folder) => {
                let before = files.len();
                files.retain(|path, _| !path.is_below(folder.as_str()));
                if files.len() == before {
                    return Err(absent(&folder));
                }
            }
        }
    }
    let tree = Tree::from_files(files.into_values().collect());
    match tree.file_in_the_way() {
        Some(path) => Err(StoreError::Refused(format!("the folder of {} is a file", shown(path.as_str())))),
        None => Ok(tree),
    }
}

fn id_of(encoded: &[u8]) -> Result<CommitId, StoreError> {
    objects::commit_id(encoded).ok_or_else(|| StoreError::Refused("the commit has no id".to_owned()))
}
