//! What a hub has: branches, trees, files, and kernels by words.
//!
//! Owns: the reading half of the API. Never: changes anything there.

use kernel_plan::units::RepoId;
use serde::Deserialize;

use crate::base::api::{Answer, Request, origin};

use super::{Hub, HubError, escaped, escaped_path};

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
pub struct Listed {
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
        self.read(answer, &format!("read the branches of `{repo}`")).map(Some)
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
            if answer.status == 404 && !under.is_empty() {
                return Ok(Vec::new());
            }
            let next = answer.header("link").and_then(next_page);
            entries.extend(self.read::<Vec<Entry>>(answer, &doing)?);
            match next.filter(|next| origin(next) == origin(self.endpoint())) {
                Some(next) => url = next,
                None => break,
            }
        }
        Ok(entries)
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
    fn entries_are_read_with_what_hubs_leave_out() {
        let entry: Entry = serde_json::from_str(r#"{"type":"file","path":"a","oid":"1","size":3,"lfs":{"oid":"ab","size":9,"pointerSize":4},"xetHash":"x"}"#).unwrap();
        assert_eq!(entry.lfs.unwrap().oid, "ab");
        let listed: Listed = serde_json::from_str(r#"{"id":"a/b","gated":false}"#).unwrap();
        assert_eq!((listed.id.as_str(), listed.downloads), ("a/b", None));
    }
}
