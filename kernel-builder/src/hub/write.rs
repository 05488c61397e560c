//! What changes a hub: repositories, branches, commits.
//!
//! Owns: the writing half of the API, and how a commit is spelled. Never: decides what is written; large files (`lfs`).

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kernel_plan::units::RepoId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::api::{Body, Request};
use crate::base::files;

use super::{Hub, HubError, escaped};

/// Files that are asked about at a time.
const BATCH: usize = 256;
/// Bytes of a file that the hub decides by.
pub const SAMPLE: usize = 512;

/// How a file is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// By git, sent with the commit.
    Regular,
    /// In the large file storage, sent before.
    Lfs,
}

/// A file as a hub is asked about it.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// Its path in the repository.
    pub path: &'a str,
    /// Its size in bytes.
    pub size: u64,
    /// Its first bytes, at most [`SAMPLE`].
    pub sample: &'a [u8],
}

/// What a hub says of a file that is to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// How it is kept.
    pub mode: Mode,
    /// Whether the repository's .gitignore leaves it out.
    pub ignored: bool,
}

/// One line of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A file with its content.
    Add {
        /// Its path in the repository.
        path: String,
        /// The file here.
        file: PathBuf,
    },
    /// A file that lies in the large file storage already.
    Point {
        /// Its path in the repository.
        path: String,
        /// SHA-256 of its content, in hex.
        sha256: String,
        /// Its size in bytes.
        size: u64,
    },
    /// A file that goes.
    Delete {
        /// Its path in the repository.
        path: String,
    },
}

/// Where a commit goes.
#[derive(Debug, Clone)]
pub struct CommitTarget<'a> {
    /// The branch, or `refs/pr/N`.
    pub revision: &'a str,
    /// What the commit was planned on; the hub refuses when it is not there any more.
    pub parent: Option<&'a str>,
    /// Whether it opens a pull request instead of changing the branch.
    pub pull: Pull,
}

/// Whether a commit opens a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pull {
    /// It changes the revision itself.
    No,
    /// It opens one.
    Open,
}

/// What came of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Committed {
    /// The commit.
    #[serde(rename = "commitOid")]
    pub commit: String,
    /// Its page.
    #[serde(rename = "commitUrl", default)]
    pub page: Option<String>,
    /// The pull request that it opened.
    #[serde(rename = "pullRequestUrl", default)]
    pub pull: Option<String>,
}

/// The code by which `kernelwright serve` says that it has no pull requests.
const NO_PULLS: &str = "PullRequestsNotSupported";

impl Hub {
    /// Makes a repository for kernels. One that is there already is none of our making, and no failure.
    pub fn create_repo(&self, repo: &RepoId, private: Option<&str>) -> Result<(), HubError> {
        let mut body = json!({ "name": repo.name(), "organization": repo.owner() });
        if let Some(visibility) = private {
            body["visibility"] = visibility.into();
        }
        body["type"] = "kernel".into();
        let url = format!("{}/api/repos/create", self.endpoint());
        self.make(url, &body, &format!("create the repository `{repo}`"))
    }

    /// Asks whether there are pull requests, before anything is made for one. This changes nothing, and a hub that does
    /// not know the question is taken to have them: it refuses when one is opened.
    pub fn takes_pulls(&self, repo: &RepoId) -> Result<(), HubError> {
        let url = self.api_of(repo, &format!("xet-write-token/main{}", query(Pull::Open)));
        let answer = self.ask(Request::get(url))?;
        match answer.header("x-error-code") {
            Some(NO_PULLS) => Err(self.refusal(&answer, &format!("open a pull request of `{repo}`"))),
            _ => Ok(()),
        }
    }

    /// Makes a branch that begins where `main` is. One that is there already is no failure.
    pub fn create_branch(&self, repo: &RepoId, branch: &str) -> Result<(), HubError> {
        let url = self.api_of(repo, &format!("branch/{}", escaped(branch)));
        self.make(url, &json!({}), &format!("create the branch `{branch}` of `{repo}`"))
    }

    fn make(&self, url: String, body: &Value, doing: &str) -> Result<(), HubError> {
        let request = Request::post(url, Body::json(body)).header("content-type", "application/json");
        let answer = self.ask(request)?;
        if answer.status == 409 { Ok(()) } else { self.done(answer, doing).map(|_| ()) }
    }

    /// How the hub wants each file: an answer for each question, in their order.
    pub fn preupload(
        &self,
        repo: &RepoId,
        onto: &CommitTarget<'_>,
        questions: &[Question<'_>],
    ) -> Result<Vec<Decision>, HubError> {
        let doing = format!("query the upload modes of `{repo}`");
        let mut decisions = Vec::new();
        for batch in questions.chunks(BATCH) {
            let files: Vec<Value> = batch.iter().map(preupload_request).collect();
            let url = self.api_of(repo, &format!("preupload/{}{}", escaped(onto.revision), query(onto.pull)));
            let body = Body::json(&json!({ "files": files }));
            let answer = self.ask(Request::post(url, body).header("content-type", "application/json"))?;
            let told: Preuploaded = self.read(answer, &doing)?;
            for question in batch {
                let of = told.files.iter().find(|file| file.path == question.path);
                let mode = match of.map(|file| file.mode.as_str()) {
                    // Storage for large files takes no empty ones (huggingface_hub, _commit_api.py).
                    Some("lfs") if question.size > 0 => Mode::Lfs,
                    Some("lfs" | "regular") => Mode::Regular,
                    _ => {
                        return Err(HubError::Malformed {
                            endpoint: self.endpoint().to_owned(),
                            doing,
                            problem: format!("no upload mode for `{}`", question.path),
                        });
                    }
                };
                decisions.push(Decision { mode, ignored: of.is_some_and(|file| file.ignored) });
            }
        }
        Ok(decisions)
    }

    /// Sends a commit, once: whether one without an answer arrived is for the caller to find out.
    pub fn commit(
        &self,
        repo: &RepoId,
        onto: &CommitTarget<'_>,
        summary: &str,
        operations: &[Operation],
    ) -> Result<Committed, HubError> {
        let body = Body::Bytes(Arc::new(spelled(summary, onto.parent, operations)?));
        let url = self.api_of(repo, &format!("commit/{}{}", escaped(onto.revision), query(onto.pull)));
        let answer =
            self.ask(Request::post(url, body).header("content-type", "application/x-ndjson").once())?;
        if answer.status == 412 {
            return Err(HubError::Moved { repo: repo.to_string(), branch: onto.revision.to_owned() });
        }
        let told: Committed = self.read(answer, &format!("commit to `{}` of `{repo}`", onto.revision))?;
        let shown = |text: Option<String>| text.map(|text| self.scrubbed(&text));
        let (page, pull) = (shown(told.page), shown(told.pull));
        Ok(Committed { commit: self.scrubbed(&told.commit), page, pull })
    }
}

#[derive(Deserialize)]
struct Preuploaded {
    files: Vec<PreuploadedFile>,
}

#[derive(Deserialize)]
struct PreuploadedFile {
    path: String,
    #[serde(rename = "uploadMode")]
    mode: String,
    #[serde(default, rename = "shouldIgnore")]
    ignored: bool,
}

fn preupload_request(question: &Question<'_>) -> Value {
    json!({ "path": question.path, "sample": STANDARD.encode(question.sample), "size": question.size })
}

fn query(pull: Pull) -> &'static str {
    match pull {
        Pull::No => "",
        Pull::Open => "?create_pr=1",
    }
}

/// A commit as lines of JSON: what it is, then what it does.
fn spelled(summary: &str, parent: Option<&str>, operations: &[Operation]) -> Result<Vec<u8>, HubError> {
    let mut header = json!({ "summary": summary, "description": "" });
    // A hub that names commits in its own way cannot be asked to compare them.
    if let Some(parent) =
        parent.filter(|oid| oid.len() == 40 && oid.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        header["parentCommit"] = parent.into();
    }
    let mut lines = json!({ "key": "header", "value": header }).to_string() + "\n";
    for operation in operations {
        let (key, value) = match operation {
            Operation::Add { path, file } => {
                let content = STANDARD.encode(files::read(file)?);
                ("file", json!({ "content": content, "path": path, "encoding": "base64" }))
            }
            Operation::Point { path, sha256, size } => {
                ("lfsFile", json!({ "path": path, "algo": "sha256", "oid": sha256, "size": size }))
            }
            Operation::Delete { path } => ("deletedFile", json!({ "path": path })),
        };
        lines += &(json!({ "key": key, "value": value }).to_string() + "\n");
    }
    Ok(lines.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_lines_of_json() {
        let folder = files::scratch().unwrap();
        let file = folder.path().join("a.py");
        files::write(&file, "x = 1\n").unwrap();
        let parent = "0123456789abcdef0123456789abcdef01234567";
        let operations = [
            Operation::Add { path: "build/a.py".to_owned(), file },
            Operation::Point { path: "build/a.so".to_owned(), sha256: "ab".to_owned(), size: 9 },
            Operation::Delete { path: "build/old.so".to_owned() },
        ];
        let text = String::from_utf8(spelled("Publish", Some(parent), &operations).unwrap()).unwrap();
        insta::assert_snapshot!(text, @r#"
        {"key":"header","value":{"summary":"Publish","description":"","parentCommit":"0123456789abcdef0123456789abcdef01234567"}}
        {"key":"file","value":{"content":"eCA9IDEK","path":"build/a.py","encoding":"base64"}}
        {"key":"lfsFile","value":{"path":"build/a.so","algo":"sha256","oid":"ab","size":9}}
        {"key":"deletedFile","value":{"path":"build/old.so"}}
        "#);
    }
}
