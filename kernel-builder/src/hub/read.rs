//! What a hub has: branches, trees, files, and kernels by words.
//!
//! Owns: the reading half of the API. Never: changes anything there.

use kernel_plan::units::RepoId;
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::base::api::{Answer, Request, origin};

use super::{Hub, HubError, escaped, escaped_path};
use crate::base::digest::hex;

/// The most pages of a list that are asked for.
const PAGES: usize = 1000;

/// The branches of a repository, and the changes that are proposed to it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Refs {
    /// Branches.
    #[serde(default)]
    pub branches: Vec<Ref>,
    /// Pull requests, where they were asked for.
    #[serde(default, rename = "pullRequests")]
    pub pulls: Vec<Ref>,
}

/// A name for a commit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Ref {
    /// `v1`.
    pub name: String,
    /// `refs/heads/v1`, `refs/pr/3`.
    #[serde(rename = "ref", default)]
    pub full: String,
    /// The commit.
    #[serde(rename = "targetCommit")]
    pub commit: String,
}

impl Refs {
    /// The commit of a branch.
    pub fn head(&self, branch: &str) -> Option<&str> {
        self.branches.iter().find(|found| found.name == branch).map(|found| found.commit.as_str())
    }
}

/// A file or folder of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// `file` or `directory`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its path in the repository.
    pub path: String,
    /// Its size in bytes.
    #[serde(default)]
    pub size: u64,
    /// Git's name of the object; of a large file, that of the pointer.
    #[serde(default)]
    pub oid: String,
    /// Of a large file, what the pointer points to.
    #[serde(default)]
    pub lfs: Option<Pointer>,
}

impl Entry {
    /// Whether this is its content, by git's name of it or the digest of a large file; a hub that names it in another way
    /// says nothing of it.
    pub fn is_of(&self, content: &[u8]) -> bool {
        match &self.lfs {
            Some(pointer) => hex(&Sha256::digest(content)) == pointer.oid,
            None if self.oid.len() == 40 => {
                let head = format!("blob {}\0", content.len());
                hex(&Sha1::new().chain_update(head).chain_update(content).finalize()) == self.oid
            }
            None => true,
        }
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.kind == "file"
    }
}

/// What a pointer points to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pointer {
    /// SHA-256 of the content; older hubs write `sha256`.
    #[serde(alias = "sha256")]
    pub oid: String,
}

/// A kernel in a list. Hubs leave out what they do not count.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct KernelListing {
    /// `owner/name`.
    pub id: String,
    /// Downloads of the last 30 days.
    #[serde(default)]
    pub downloads: Option<u64>,
    /// Likes.
    #[serde(default)]
    pub likes: Option<u64>,
    /// When it was changed last.
    #[serde(default, rename = "lastModified")]
    pub changed: Option<String>,
    /// Whether only some may see it.
    #[serde(default)]
    pub private: Option<bool>,
    /// Words that describe it.
    #[serde(default)]
    pub tags: Vec<String>,
}

impl Hub {
    /// The branches of a repository; nothing where there is no such repository, or none that we may see.
    pub fn refs(&self, repo: &RepoId) -> Result<Option<Refs>, HubError> {
        self.refs_at(repo, "refs")
    }

    /// [`Self::refs`] with pull requests.
    pub fn refs_and_pulls(&self, repo: &RepoId) -> Result<Option<Refs>, HubError> {
        self.refs_at(repo, "refs?include_prs=1")
    }

    fn refs_at(&self, repo: &RepoId, rest: &str) -> Result<Option<Refs>, HubError> {
        let answer = self.ask(Request::get(self.api_of(repo, rest)))?;
        if is_missing(&answer) {
            return Ok(None);
        }
        let mut refs: Refs = self.read(answer, &format!("read the branches of `{repo}`"))?;
        // They are shown to people, and written into what `hub pull` makes.
        for one in refs.branches.iter_mut().chain(&mut refs.pulls) {
            for text in [&mut one.name, &mut one.full, &mut one.commit] {
                *text = self.scrubbed(text);
            }
        }
        Ok(Some(refs))
    }

    /// Every file below `under` (of all, when empty) at a revision; nothing where there is no such folder.
    pub fn files(&self, repo: &RepoId, revision: &str, under: &str) -> Result<Vec<Entry>, HubError> {
        let entries = self.tree(repo, revision, under, "recursive=true")?;
        Ok(entries.into_iter().filter(Entry::is_file).collect())
    }

    /// The folders right below `under`.
    pub fn folders(&self, repo: &RepoId, revision: &str, under: &str) -> Result<Vec<String>, HubError> {
        let entries = self.tree(repo, revision, under, "recursive=false")?;
        let name = |entry: Entry| entry.path.rsplit('/').next().map(str::to_owned);
        Ok(entries.into_iter().filter(|entry| !entry.is_file()).filter_map(name).collect())
    }

    fn tree(&self, repo: &RepoId, revision: &str, under: &str, how: &str) -> Result<Vec<Entry>, HubError> {
        let doing = format!("list the files of `{repo}`");
        let folder = if under.is_empty() { String::new() } else { format!("/{}", escaped_path(under)) };
        let mut url = self.api_of(repo, &format!("tree/{}{folder}?{how}&expand=false", escaped(revision)));
        let mut entries: Vec<Entry> = Vec::new();
        for _ in 0..PAGES {
            let answer = self.ask(Request::get(&url))?;
            if answer.status == 404 && !under.is_empty() && entries.is_empty() {
                return Ok(Vec::new());
            }
            let next = answer.header("link").and_then(next_page);
            entries.extend(self.read::<Vec<Entry>>(answer, &doing)?);
            match next {
                Some(next) => url = self.page_of_ours(&next, &doing)?,
                None => return Ok(entries),
            }
        }
        // Half a list would be taken for the whole: its other half would be sent anew, and nothing of it deleted.
        Err(self.malformed(&doing, format!("it has more than {PAGES} pages")))
    }

    /// The address of a further page, which is this hub's: the token goes with the question.
    fn page_of_ours(&self, link: &str, doing: &str) -> Result<String, HubError> {
        let own = origin(self.endpoint());
        let url = match link.strip_prefix('/').filter(|_| !link.starts_with("//")) {
            Some(rest) => format!("{}/{rest}", own.as_deref().unwrap_or_default()),
            None => self.ours(link),
        };
        if origin(&url) == own {
            return Ok(url);
        }
        Err(self.malformed(doing, "its next page is on another server".to_owned()))
    }

    fn malformed(&self, doing: &str, problem: String) -> HubError {
        HubError::Malformed { endpoint: self.endpoint().to_owned(), doing: doing.to_owned(), problem }
    }

    /// The content of a file; nothing where there is none.
    pub fn file(&self, repo: &RepoId, revision: &str, path: &str) -> Result<Option<Vec<u8>>, HubError> {
        let (revision, place) = (escaped(revision), escaped_path(path));
        let url = format!("{}/kernels/{repo}/resolve/{revision}/{place}", self.endpoint());
        let answer = self.ask(Request::get(url))?;
        if is_missing(&answer) {
            return Ok(None);
        }
        self.done(answer, &format!("read `{path}` of `{repo}`")).map(|answer| Some(answer.body))
    }
}

impl Hub {
    /// The content of a file of a listing at `commit`, held against the name that it has there.
    pub fn listed(&self, repo: &RepoId, commit: &str, entry: &Entry) -> Result<Vec<u8>, HubError> {
        let doing = format!("read `{}` of `{repo}`", self.scrubbed(&entry.path));
        let content = self.file(repo, commit, &entry.path)?;
        let content = content.ok_or_else(|| {
            self.malformed(&doing, "it is in the list of files, but was not found".to_owned())
        })?;
        if entry.is_of(&content) {
            return Ok(content);
        }
        Err(self.malformed(&doing, "its content does not match the digest in the list of files".to_owned()))
    }
}

/// Whether a repository, revision or file is not there. To one without a token the Hub says 401 for a repository that
/// may be private or not exist.
fn is_missing(answer: &Answer) -> bool {
    answer.status == 404 || (answer.status == 401 && answer.header("x-error-code") == Some("RepoNotFound"))
}

/// The address of the next page (RFC 8288): `<https://...>; rel="next"`.
fn next_page(link: &str) -> Option<String> {
    link.split(',').find_map(|one| {
        let (address, rest) = one.trim().strip_prefix('<')?.split_once('>')?;
        (rest.contains("rel=\"next\"") || rest.contains("rel=next")).then(|| address.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_followed_by_their_link() {
        let link = r#"<http://h/api?cursor=a>; rel="prev", <http://h/api?cursor=b&x=1>; rel="next""#;
        assert_eq!(next_page(link).as_deref(), Some("http://h/api?cursor=b&x=1"));
        assert_eq!(next_page(r#"<http://h/1>; rel="last""#), None);
    }

    #[test]
    fn content_is_held_against_its_name() {
        let entry = |text: &str| serde_json::from_str::<Entry>(text).unwrap();
        // `echo hello | git hash-object --stdin`, `echo hello | sha256sum`
        let regular = entry(r#"{"type":"file","path":"a","oid":"ce013625030ba8dba906f756967f9e9ca394464a"}"#);
        let large = entry(
            r#"{"type":"file","path":"a","oid":"1","lfs":{"oid":"5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"}}"#,
        );
        for entry in [regular, large] {
            assert!(entry.is_of(b"hello\n") && !entry.is_of(b"hellO\n"));
        }
        assert!(entry(r#"{"type":"file","path":"a"}"#).is_of(b"whatever"));
    }

    #[test]
    fn entries_are_read_with_what_hubs_leave_out() {
        let entry: Entry = serde_json::from_str(r#"{"type":"file","path":"a","oid":"1","size":3,"lfs":{"oid":"ab","size":9,"pointerSize":4},"xetHash":"x"}"#).unwrap();
        assert_eq!(entry.lfs.unwrap().oid, "ab");
        let listed: KernelListing = serde_json::from_str(r#"{"id":"a/b","gated":false}"#).unwrap();
        assert_eq!((listed.id.as_str(), listed.downloads), ("a/b", None));
    }
}
