//! Kernels on the disk: blobs by digest, commits that never change, refs that point at them.
//!
//! Owns: the folder, and who may change a ref when.
//! Never: says yes before it is on the disk; knows HTTP.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::name::{BadName, CommitId, FilePath, RefName, RepoId, Revision, Sha256};
use crate::wire::xet::XetError;

mod change;
mod check;
mod content;
pub mod disk;
mod gc;
pub mod objects;
mod sound;
mod upload;
mod xet;

pub use change::{ATTRIBUTES, Author};
pub use check::Depth;
use disk::DiskError;
pub use gc::{FreedSpace, Sweep};
use objects::{Commit, Entry, FORMAT, Tree};
pub use upload::Upload;
pub use xet::Session;

/// So many trees are kept in memory; they never change.
const TREES_IN_MEMORY: usize = 256;
/// The content of `DIR/format`.
const MARK: &str = "kernelwright-hub 1\n";
/// The entries that a folder may have before it becomes a hub: tokens, what a killed start left behind,
/// and what file systems have at their root.
const BEFORE: &[&str] = &["lock", "tmp", "tokens", "tokens.lock", "tokens.new", "lost+found"];
/// The number of locks that kernels share for writing.
const WRITERS: usize = 64;

/// Commits that are looked through for the one that changed a file last.
const HISTORY: usize = 1000;
/// Bytes of blobs that one request holds against their digests, before its client gives up.
pub const READ_AT_ONCE: u64 = 1024 * 1024 * 1024;
/// So many blobs are held against their digests at a time.
const LOOKING: usize = 16;

/// Why the store does not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such kernel.
    #[error("kernel `{0}` not found")]
    NoRepo(RepoId),
    /// No such revision.
    #[error("`{repo}` has no revision `{revision}`")]
    NoRevision {
        /// The kernel.
        repo: RepoId,
        /// The revision of the request.
        revision: String,
    },
    /// No such file; the commit that does not have it.
    #[error("{what}")]
    NoEntry {
        /// Told to the client.
        what: String,
        /// At which commit.
        commit: Option<CommitId>,
    },
    /// It is there already.
    #[error("{0}")]
    Exists(String),
    /// The branch is not where the commit was to come after.
    #[error(
        "a commit has happened since: the branch is at {head}, not at {parent}. The branch was updated since you opened this page. Please refresh and try again."
    )]
    Moved {
        /// The head of the branch.
        head: CommitId,
        /// The head that the client expected.
        parent: String,
    },
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] BadName),
    /// A xorb or a shard that is none.
    #[error(transparent)]
    Xet(#[from] XetError),
    /// The request is not valid here.
    #[error("{0}")]
    Refused(String),
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// An object is missing or does not say what it must.
    #[error("{} is damaged: {what}", .path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// The difference.
        what: &'static str,
    },
    /// A commit or a tree is not the JSON that it must be.
    #[error("{} is damaged", .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: serde_json::Error,
    },
}

/// Branches and tags of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refs {
    /// By name.
    pub branches: BTreeMap<RefName, CommitId>,
    /// By name.
    pub tags: BTreeMap<RefName, CommitId>,
}

/// A kernel as it is at one commit.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Which.
    pub id: CommitId,
    /// The commit that set it.
    pub commit: Arc<Commit>,
    /// Its files.
    pub tree: Arc<Tree>,
}

/// A commit and what it says.
pub type Change = (CommitId, Arc<Commit>);

/// The folder.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    trees: Mutex<HashMap<Sha256, Arc<Tree>>>,
    writers: [Mutex<()>; WRITERS],
    /// Blobs whose content was held against their digest.
    sound: Mutex<HashMap<Sha256, disk::Stamp>>,
    /// Held while that is done.
    looking: [Mutex<()>; LOOKING],
    /// Held while a long text with escapes is in memory.
    texts: Mutex<()>,
    /// Held as long as this value is there.
    _lock: File,
}

/// Why a folder cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server has it.
    #[error("{} is in use by another hub process; stop it first", .0.display())]
    Locked(PathBuf),
    /// It holds something else.
    #[error("{} is not empty and not the folder of a hub; use a new or an empty folder", .0.display())]
    Foreign(PathBuf),
    /// It holds nothing.
    #[error("{} is not the folder of a hub: the file `format` is missing; check the path", .0.display())]
    None(PathBuf),
    /// It is of another version.
    #[error("{} has the format {found:?}, but this program supports only {MARK:?}", .path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// The content of the file.
        found: String,
    },
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Store {
    /// Opens a hub's folder, and makes none.
    ///
    /// # Errors
    /// As of [`Self::open`], and where there is none.
    pub fn existing(root: &Path) -> Result<Self, OpenError> {
        match disk::read(&root.join("format"))? {
            Some(_) => Self::open(root).map(|(store, _)| store),
            None => Err(OpenError::None(root.to_owned())),
        }
    }

    /// Opens a hub's folder, or makes one. Says how many half-written files an earlier run left; they are gone.
    ///
    /// # Errors
    /// The folder is not a hub, or the disk fails.
    pub fn open(root: &Path) -> Result<(Self, usize), OpenError> {
        disk::create_folder(root)?;
        let mark = root.join("format");
        let there = disk::read(&mark)?;
        if there.is_none() && disk::names(root)?.iter().any(|name| !BEFORE.contains(&name.as_str())) {
            return Err(OpenError::Foreign(root.to_owned()));
        }
        let lock = disk::lock(&root.join("lock"))?.ok_or_else(|| OpenError::Locked(root.to_owned()))?;
        let writers = std::array::from_fn(|_| Mutex::new(()));
        let store = Self {
            root: root.to_owned(),
            trees: Mutex::default(),
            writers,
            sound: Mutex::default(),
            looking: std::array::from_fn(|_| Mutex::new(())),
            texts: Mutex::default(),
            _lock: lock,
        };
        disk::folder(&store.temporaries())?;
        let swept = disk::sweep(&store.temporaries())?;
        // The mark comes first: a start that is killed behind it goes on the next time.
        match there {
            None => disk::write(&store.temporaries(), &mark, MARK.as_bytes())?,
            Some(found) if found == MARK.as_bytes() => {}
            Some(found) => {
                let found = String::from_utf8_lossy(&found).into_owned();
                return Err(OpenError::Format { path: mark, found });
            }
        }
        for folder in ["kernels", "blobs", "blobs/sha256"] {
            disk::folder(&root.join(folder))?;
        }
        disk::shards(&root.join("blobs/sha256"))?;
        Ok((store, swept))
    }

    fn temporaries(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// An empty file without a name.
    pub fn temporary(&self) -> Result<disk::Temporary, StoreError> {
        Ok(disk::Temporary::new(&self.temporaries())?)
    }

    fn folder(&self, repo: &RepoId) -> PathBuf {
        self.root.join("kernels").join(repo.org()).join(repo.name())
    }

    fn blob(&self, digest: &Sha256) -> PathBuf {
        let (shard, rest) = digest.as_str().split_at(2);
        self.root.join("blobs/sha256").join(shard).join(rest)
    }

    fn commit_file(&self, repo: &RepoId, id: &CommitId) -> PathBuf {
        self.folder(repo).join("commits").join(id.as_str())
    }

    fn ref_file(&self, repo: &RepoId, kind: RefKind, name: &RefName) -> PathBuf {
        self.folder(repo).join("refs").join(kind.folder()).join(name.file_name())
    }

    /// Kernels in the order of their names.
    pub fn list(&self) -> Result<Vec<RepoId>, StoreError> {
        let mut repos = Vec::new();
        let kernels = self.root.join("kernels");
        for org in disk::names(&kernels)? {
            for name in disk::names(&kernels.join(&org))? {
                repos.extend(RepoId::new(&org, &name).ok());
            }
        }
        Ok(repos)
    }

    /// Whether there is such a kernel.
    pub fn has(&self, repo: &RepoId) -> bool {
        self.folder(repo).is_dir()
    }

    /// A kernel as it is spelled: the same name in another case is the same kernel. `None` where there is none.
    pub fn spelled(&self, repo: &RepoId) -> Result<Option<RepoId>, StoreError> {
        if self.has(repo) {
            return Ok(Some(repo.clone()));
        }
        let kernels = self.root.join("kernels");
        for org in disk::names(&kernels)?.iter().filter(|org| org.eq_ignore_ascii_case(repo.org())) {
            for name in disk::names(&kernels.join(org))? {
                if name.eq_ignore_ascii_case(repo.name()) {
                    return Ok(RepoId::new(org, &name).ok());
                }
            }
        }
        Ok(None)
    }

    /// Branches and tags.
    pub fn refs(&self, repo: &RepoId) -> Result<Refs, StoreError> {
        self.must_have(repo)?;
        let mut refs = Refs::default();
        for (kind, into) in [(RefKind::Branch, &mut refs.branches), (RefKind::Tag, &mut refs.tags)] {
            let folder = self.folder(repo).join("refs").join(kind.folder());
            for name in disk::names(&folder)?.iter().filter_map(|name| RefName::of_file_name(name)) {
                // One that was removed in between is not there.
                if let Some(id) = self.read_ref(repo, kind, &name)? {
                    into.insert(name, id);
                }
            }
        }
        Ok(refs)
    }

    /// Returns the commit of a revision.
    pub fn resolve(&self, repo: &RepoId, revision: &Revision) -> Result<CommitId, StoreError> {
        self.must_have(repo)?;
        let (found, shown) = match revision {
            Revision::Commit(id) => {
                (disk::size(&self.commit_file(repo, id))?.map(|_| id.clone()), id.to_string())
            }
            Revision::Branch(name) => (self.read_ref(repo, RefKind::Branch, name)?, name.to_string()),
            Revision::Tag(name) => (self.read_ref(repo, RefKind::Tag, name)?, name.to_string()),
            Revision::Named(name) => {
                let branch = self.read_ref(repo, RefKind::Branch, name)?;
                let found = if branch.is_some() { branch } else { self.read_ref(repo, RefKind::Tag, name)? };
                (found, name.to_string())
            }
        };
        found.ok_or_else(|| StoreError::NoRevision { repo: repo.clone(), revision: shown })
    }

    /// A kernel at a revision.
    pub fn snapshot(&self, repo: &RepoId, revision: &Revision) -> Result<Snapshot, StoreError> {
        let id = self.resolve(repo, revision)?;
        self.snapshot_of(repo, id)
    }

    fn snapshot_of(&self, repo: &RepoId, id: CommitId) -> Result<Snapshot, StoreError> {
        let commit = self.commit_of(repo, &id)?;
        let tree = self.tree(&commit.tree)?;
        Ok(Snapshot { id, commit: Arc::new(commit), tree })
    }

    /// The commits of a revision, newest first: at most `most`, without the first `skip`.
    pub fn history(
        &self,
        repo: &RepoId,
        revision: &Revision,
        skip: usize,
        most: usize,
    ) -> Result<Vec<(CommitId, Commit)>, StoreError> {
        let mut next = Some(self.resolve(repo, revision)?);
        let (mut history, mut skipped) = (Vec::new(), 0);
        while let Some(id) = next.filter(|_| history.len() < most) {
            let commit = self.commit_of(repo, &id)?;
            next = commit.parent.clone();
            if skipped < skip {
                skipped += 1;
            } else {
                history.push((id, commit));
            }
        }
        Ok(history)
    }

    /// Returns the newest commit that changed each of `paths`, among the newest `HISTORY` commits. A folder changes with
    /// any file below it.
    pub fn last_changes(
        &self,
        repo: &RepoId,
        snapshot: &Snapshot,
        paths: &[&str],
    ) -> Result<HashMap<String, Arc<Change>>, StoreError> {
        let state = |tree: &Tree, path: &str| {
            let file = path.parse().ok().and_then(|path| tree.file(&path).map(|entry| entry.oid.clone()));
            file.or_else(|| tree.has_folder(path).then(|| tree.folder_oid(path)))
        };
        let mut left: Vec<(&str, Option<String>)> =
            paths.iter().map(|path| (*path, state(&snapshot.tree, path))).collect();
        let (mut changes, mut here) = (HashMap::new(), snapshot.clone());
        for _ in 0..HISTORY {
            let before = match &here.commit.parent {
                Some(parent) => Some(self.snapshot_of(repo, parent.clone())?),
                None => None,
            };
            let change = Arc::new((here.id.clone(), here.commit.clone()));
            left.retain(|(path, now)| {
                let same = before.as_ref().is_some_and(|before| state(&before.tree, path) == *now);
                if !same {
                    changes.insert((*path).to_owned(), change.clone());
                }
                same
            });
            match before {
                Some(before) if !left.is_empty() => here = before,
                _ => break,
            }
        }
        Ok(changes)
    }

    /// The content of a file.
    pub fn open_blob(&self, entry: &Entry) -> Result<File, StoreError> {
        let path = self.blob(&entry.digest);
        let file = disk::open(&path)?.ok_or_else(|| damaged(&path, "it is missing"))?;
        let size = file.metadata().map_err(disk::at(&path))?.len();
        if size == entry.size { Ok(file) } else { Err(damaged(&path, "its size does not match")) }
    }

    /// The content of a small file; `None` where there is none or it is larger.
    pub fn small_file(&self, tree: &Tree, path: &str, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let entry = path.parse::<FilePath>().ok().and_then(|path| tree.file(&path).cloned());
        match entry.filter(|entry| entry.size <= most) {
            Some(entry) => match disk::read(&self.blob(&entry.digest))? {
                Some(bytes) if objects::sha256(&bytes) != entry.digest => {
                    Err(damaged(&self.blob(&entry.digest), "its digest does not match"))
                }
                read => Ok(read),
            },
            None => Ok(None),
        }
    }

    fn must_have(&self, repo: &RepoId) -> Result<(), StoreError> {
        if self.has(repo) { Ok(()) } else { Err(StoreError::NoRepo(repo.clone())) }
    }

    fn read_ref(&self, repo: &RepoId, kind: RefKind, name: &RefName) -> Result<Option<CommitId>, StoreError> {
        let path = self.ref_file(repo, kind, name);
        let Some(bytes) = disk::read(&path)? else { return Ok(None) };
        let id = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim_end().parse().ok());
        id.map(Some).ok_or_else(|| damaged(&path, "it does not contain a commit id"))
    }

    fn commit_of(&self, repo: &RepoId, id: &CommitId) -> Result<Commit, StoreError> {
        let path = self.commit_file(repo, id);
        let Some(bytes) = disk::read(&path)? else {
            // A kernel that was removed in between is not there; in one that is, its commits are.
            self.must_have(repo)?;
            return Err(damaged(&path, "it is missing"));
        };
        if objects::commit_id(&bytes).as_ref() != Some(id) {
            return Err(damaged(&path, "its digest does not match"));
        }
        let commit: Commit = serde_json::from_slice(&bytes)
            .map_err(|cause| StoreError::Unreadable { path: path.clone(), cause })?;
        if commit.format == FORMAT { Ok(commit) } else { Err(damaged(&path, "its format is not supported")) }
    }

    fn tree(&self, digest: &Sha256) -> Result<Arc<Tree>, StoreError> {
        if let Some(tree) = guard(&self.trees).get(digest) {
            return Ok(tree.clone());
        }
        let path = self.blob(digest);
        let bytes = disk::read(&path)?.ok_or_else(|| damaged(&path, "it is missing"))?;
        if objects::sha256(&bytes) != *digest {
            return Err(damaged(&path, "its digest does not match"));
        }
        let tree: Tree =
            serde_json::from_slice(&bytes).map_err(|cause| StoreError::Unreadable { path, cause })?;
        let tree = Arc::new(tree);
        let mut trees = guard(&self.trees);
        if trees.len() >= TREES_IN_MEMORY {
            trees.clear();
        }
        trees.insert(digest.clone(), tree.clone());
        Ok(tree)
    }

    /// Who holds this changes refs of the kernel, alone. Some other kernels have the same lock.
    fn writer(&self, repo: &RepoId) -> MutexGuard<'_, ()> {
        let place = BuildHasherDefault::<DefaultHasher>::default().hash_one(repo) % WRITERS as u64;
        guard(&self.writers[usize::try_from(place).unwrap_or_default()])
    }
}

/// The kind of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefKind {
    /// It moves.
    Branch,
    /// It does not.
    Tag,
}

impl RefKind {
    fn folder(self) -> &'static str {
        match self {
            Self::Branch => "heads",
            Self::Tag => "tags",
        }
    }
}

fn damaged(path: &Path, what: &'static str) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), what }
}

/// A panic of another thread leaves nothing half done here: what is on the disk decides.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
