//! What a kernel is made of: files, trees, commits; each under the digest of what it says.
//!
//! Owns: their form on the disk, and the ids that clients see.
//! Never: touches the disk.

use std::collections::BTreeMap;

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::name::{CommitId, FilePath, Sha256, hex};

/// The number in every object; another one is of another version of this program.
pub const FORMAT: u32 = 1;

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where.
    pub path: FilePath,
    /// Its content.
    pub digest: Sha256,
    /// In bytes.
    pub size: u64,
    /// What git calls it: the blob, or the pointer of a large file.
    pub oid: String,
    /// Whether it came by LFS.
    pub lfs: bool,
}

impl Entry {
    /// A file that came within a commit.
    pub fn regular(path: FilePath, content: &[u8]) -> Self {
        let oid = git_oid(content);
        Self { path, digest: sha256(content), size: content.len() as u64, oid, lfs: false }
    }

    /// A file that came by LFS.
    pub fn large(path: FilePath, digest: Sha256, size: u64) -> Self {
        let oid = git_oid(pointer(&digest, size).as_bytes());
        Self { path, digest, size, oid, lfs: true }
    }

    /// What clients compare: git's id of a regular file, the digest of a large one.
    pub fn etag(&self) -> &str {
        if self.lfs { self.digest.as_str() } else { &self.oid }
    }

    /// Bytes of the pointer that stands for a large file in git.
    pub fn pointer_size(&self) -> usize {
        pointer(&self.digest, self.size).len()
    }
}

/// All files of a kernel at one commit, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// [`FORMAT`].
    pub format: u32,
    /// The files.
    pub files: Vec<Entry>,
}

/// A file or a folder, as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed<'a> {
    /// A file.
    File(&'a Entry),
    /// A folder, with an id that changes when anything below it does.
    Folder {
        /// Where.
        path: &'a str,
        /// 40 digits.
        oid: String,
    },
}

impl Tree {
    /// A tree of these files, in any order.
    pub fn from_files(mut files: Vec<Entry>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { format: FORMAT, files }
    }

    /// The file at a path.
    pub fn file(&self, path: &FilePath) -> Option<&Entry> {
        let at = self.files.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        self.files.get(at)
    }

    /// Whether any file lies below.
    pub fn has_folder(&self, folder: &str) -> bool {
        self.files.iter().any(|entry| entry.path.is_below(folder))
    }

    /// The id of a folder.
    pub fn folder_oid(&self, folder: &str) -> String {
        let mut context = Context::new(&SHA256);
        for entry in self.files.iter().filter(|entry| entry.path.is_below(folder)) {
            name_entry(&mut context, entry);
        }
        short(context)
    }

    /// What lies in a folder (`""` is the root), with what lies deeper when `recursive`; sorted by path.
    pub fn list(&self, folder: &str, recursive: bool) -> Vec<Listed<'_>> {
        let mut listed = Vec::new();
        let mut folders: BTreeMap<&str, Context> = BTreeMap::new();
        let skip = if folder.is_empty() { 0 } else { folder.len() + 1 };
        for entry in self.files.iter().filter(|entry| entry.path.is_below(folder)) {
            let path = entry.path.as_str();
            let inside = path.get(skip..).unwrap_or_default();
            for (at, _) in inside.match_indices('/').take(if recursive { usize::MAX } else { 1 }) {
                let folder = path.get(..skip + at).unwrap_or_default();
                name_entry(folders.entry(folder).or_insert_with(|| Context::new(&SHA256)), entry);
            }
            if recursive || !inside.contains('/') {
                listed.push(Listed::File(entry));
            }
        }
        let of_folder = |(path, context)| Listed::Folder { path, oid: short(context) };
        listed.extend(folders.into_iter().map(of_folder));
        listed.sort_by(|a, b| a.path().cmp(b.path()));
        listed
    }

    /// A file whose path is a folder of another one's, which no file system takes.
    pub fn file_in_the_way(&self) -> Option<&FilePath> {
        let files: std::collections::HashSet<&str> =
            self.files.iter().map(|entry| entry.path.as_str()).collect();
        let blocked = |entry: &&Entry| {
            let path = entry.path.as_str();
            path.match_indices('/').any(|(at, _)| path.get(..at).is_some_and(|folder| files.contains(folder)))
        };
        self.files.iter().find(blocked).map(|entry| &entry.path)
    }
}

/// What a file adds to the ids of the folders above it.
fn name_entry(context: &mut Context, entry: &Entry) {
    context.update(format!("{}\0{}\n", entry.path, entry.oid).as_bytes());
}

/// 40 digits.
fn short(context: Context) -> String {
    let mut oid = hex(context.finish().as_ref());
    oid.truncate(40);
    oid
}

impl Listed<'_> {
    /// Where it is.
    pub fn path(&self) -> &str {
        match self {
            Self::File(entry) => entry.path.as_str(),
            Self::Folder { path, .. } => path,
        }
    }
}

/// A state of a kernel, and how it came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// [`FORMAT`].
    pub format: u32,
    /// The digest of the tree.
    pub tree: Sha256,
    /// What was before; none for the first.
    pub parent: Option<CommitId>,
    /// The name of the token.
    pub author: String,
    /// Seconds since 1970.
    pub date: u64,
    /// The first line of the message.
    pub title: String,
    /// The rest.
    pub message: String,
}

/// What an object says, for the disk.
pub fn encode<T: Serialize>(object: &T) -> Vec<u8> {
    // Maps with keys that are no strings, and errors of a writer, are what could fail; there are none.
    serde_json::to_vec(object).unwrap_or_default()
}

/// The id of a commit: the first 40 digits of its SHA-256 digest.
pub fn commit_id(encoded: &[u8]) -> Option<CommitId> {
    sha256(encoded).as_str().get(..40)?.parse().ok()
}

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> Sha256 {
    Sha256::of_bytes(digest(&SHA256, bytes).as_ref())
}

/// Both names of a content that is seen a part at a time.
pub struct Digests {
    sha256: Context,
    git: Context,
}

impl Digests {
    /// Of a content with so many bytes.
    pub fn of_length(length: u64) -> Self {
        let mut git = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        git.update(format!("blob {length}\0").as_bytes());
        Self { sha256: Context::new(&SHA256), git }
    }

    /// The next part.
    pub fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        self.git.update(bytes);
    }

    /// The file with this content.
    pub fn entry(self, path: FilePath, size: u64) -> Entry {
        let (digest, oid) =
            (Sha256::of_bytes(self.sha256.finish().as_ref()), hex(self.git.finish().as_ref()));
        Entry { path, digest, size, oid, lfs: false }
    }
}

/// What git calls a file with this content: SHA-1 over `blob <size>\0<content>`.
pub fn git_oid(content: &[u8]) -> String {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(format!("blob {}\0", content.len()).as_bytes());
    context.update(content);
    hex(context.finish().as_ref())
}

/// git-lfs's pointer (its docs/spec.md).
fn pointer(digest: &Sha256, size: u64) -> String {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> Tree {
        Tree::from_files(
            paths.iter().map(|path| Entry::regular(path.parse().unwrap(), path.as_bytes())).collect(),
        )
    }

    #[test]
    fn oids_are_gits() {
        // `printf hi | git hash-object --stdin`
        assert_eq!(git_oid(b"hi"), "32f95c0d1244a78b2be1bab8de17906fabb2c4a8");
        assert_eq!(git_oid(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    }

    #[test]
    fn a_listing_shows_one_level_or_all() {
        let tree = tree(&["README.md", "build/a/x.py", "build/a/y/z.py", "build/b/x.py", "builder.txt"]);
        let paths = |folder, recursive| -> Vec<String> {
            tree.list(folder, recursive).iter().map(|listed| listed.path().to_owned()).collect()
        };
        assert_eq!(paths("", false), ["README.md", "build", "builder.txt"]);
        assert_eq!(paths("build", false), ["build/a", "build/b"]);
        assert_eq!(paths("build/a", true), ["build/a/x.py", "build/a/y", "build/a/y/z.py"]);
        assert_eq!(paths("buil", true), Vec::<String>::new());
        assert!(tree.has_folder("build/a") && !tree.has_folder("build/a/x.py"));
        assert_ne!(tree.folder_oid("build/a"), tree.folder_oid("build/b"));
        for listed in tree.list("", true) {
            if let Listed::Folder { path, oid } = listed {
                assert_eq!(oid, tree.folder_oid(path));
            }
        }
    }

    #[test]
    fn a_file_cannot_be_a_folder() {
        assert_eq!(tree(&["a", "a-b", "a/b"]).file_in_the_way().map(FilePath::as_str), Some("a/b"));
        assert_eq!(tree(&["a", "a-b", "b/a"]).file_in_the_way(), None);
    }

    #[test]
    fn objects_survive_the_disk() {
        let there = tree(&["a", "b/c"]);
        assert_eq!(serde_json::from_slice::<Tree>(&encode(&there)).unwrap(), there);
        let forged = "{\"format\":1,\"files\":[{\"path\":\"../x\",\"digest\":\"00\",\"size\":0,\"oid\":\"\",\"lfs\":false}]}";
        assert!(serde_json::from_str::<Tree>(forged).is_err());
    }
}
