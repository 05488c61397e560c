//! Publishes to a hub: the builds to the branch of their version, the card to `main`.
//!
//! Owns: what goes to which branch, the order, and going on where an earlier run stopped.
//! Never: sends what is there already; writes over what somebody else changed meanwhile.

use std::path::PathBuf;

use kernel_plan::units::{GitRef, RepoId};
use serde::Serialize;

use crate::base::digest::Digest;
use crate::hub::Hub;
use crate::package::Bundle;

use super::{PublishError, contents, digest};

mod local;
pub mod plan;
pub mod published;
mod send;

pub use plan::StaleFiles;
pub use send::send;

use local::Local;
use plan::{Change, Row};

/// Where the card lies, and what a new branch begins from.
const MAIN: &str = "main";

/// Where and how to publish.
#[derive(Debug, Clone)]
pub struct Target {
    /// The repository.
    pub repo: RepoId,
    /// The branch of the builds.
    pub branch: GitRef,
    /// Who may see a repository that is made.
    pub visibility: Visibility,
    /// How it is changed.
    pub way: ChangeMethod,
    /// What happens to files that the package does not have.
    pub stale: StaleFiles,
}

/// Who may see a repository that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// As the hub has it for the owner.
    Default,
    /// The owner.
    Private,
}

/// How a repository is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeMethod {
    /// By commits to its branches.
    Commit,
    /// By pull requests, one a branch.
    PullRequest,
}

/// What has to be done, before it is.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where and how.
    pub target: Target,
    /// Whether the repository has to be made.
    pub makes_repo: bool,
    /// One for each branch, in the order in which they are done.
    pub changes: Vec<Change>,
    rows: Vec<Vec<Row>>,
    kernel: Kernel,
}

/// What is published.
#[derive(Debug, Clone, Serialize)]
struct Kernel {
    name: String,
    version: u64,
    variants: Vec<String>,
    digest: Digest,
}

/// A plan as it is shown.
#[derive(Debug, Clone, Serialize)]
pub struct PlanSummary {
    /// The hub.
    pub endpoint: String,
    /// The repository.
    pub repo: String,
    /// Whether it has to be made.
    pub makes_repo: bool,
    /// Whether pull requests are opened.
    pub pull_requests: bool,
    /// One for each branch.
    pub branches: Vec<ShownBranch>,
}

/// What happens to one branch.
#[derive(Debug, Clone, Serialize)]
pub struct ShownBranch {
    /// The branch.
    pub branch: String,
    /// Whether it has to be made.
    pub makes_branch: bool,
    /// Files to send.
    pub files: Vec<Row>,
    /// Bytes of them.
    pub bytes: u64,
    /// Paths to delete.
    pub delete: Vec<String>,
    /// Files that are there already.
    pub unchanged: usize,
    /// How many commits that takes.
    pub commits: usize,
}

/// What was published where.
#[derive(Debug, Clone, Serialize)]
pub struct Receipt {
    /// The kernel's name.
    pub name: String,
    /// The kernel's major version.
    pub version: u64,
    /// The page of the repository.
    pub target: String,
    /// The variants.
    pub variants: Vec<String>,
    /// Digest over all that was published, by path and content, as in a folder's receipt.
    pub digest: Digest,
    /// Whether anything was changed there.
    pub changed: bool,
    /// The hub.
    pub endpoint: String,
    /// The repository.
    pub repo: String,
    /// The branch of the builds.
    pub branch: String,
    /// The commit of that branch that holds what was published; nothing while it is proposed only.
    pub revision: Option<String>,
    /// The commits that were made.
    pub commits: Vec<PublishedCommit>,
    /// The pull requests that were opened, or that hold the same already.
    pub pull_requests: Vec<String>,
    /// Files that changed, and their bytes.
    pub files: usize,
    /// Bytes of those files.
    pub bytes: u64,
    /// Bytes that went to the large file storage in this run.
    pub uploaded: u64,
    /// Paths that were deleted.
    pub deleted: Vec<String>,
    /// Files that were there already.
    pub unchanged: usize,
}

/// A commit that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PublishedCommit {
    /// The branch, or the pull request's.
    pub branch: String,
    /// The commit.
    pub commit: String,
    /// Its page.
    pub page: Option<String>,
    /// How many files it adds, changes or deletes.
    pub operations: usize,
}

/// A branch, and the files that it should have.
type Part = (String, Vec<Local>);

/// What each branch should have, builds first, and the digest over all of it.
fn parts(bundle: &Bundle, target: &Target) -> Result<(Vec<Part>, Digest), PublishError> {
    let contents = contents(bundle)?;
    let digest = digest(&contents)?;
    let (mut builds, mut card) = (Vec::new(), Vec::new());
    for (path, file) in contents {
        let name = in_repository(&path);
        let part = if name == "README.md" { &mut card } else { &mut builds };
        part.push(local::read(name, &file)?);
    }
    Ok((vec![(target.branch.to_string(), builds), (MAIN.to_owned(), card)], digest))
}

/// A path as a repository spells it.
fn in_repository(path: &std::path::Path) -> String {
    let parts: PathBuf = path.components().collect();
    parts.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// What has to be done. Asks the hub what it has; without a hub, everything is taken to be new.
pub fn plan(bundle: &Bundle, target: &Target, hub: Option<&Hub>) -> Result<Plan, PublishError> {
    if let (Some(hub), ChangeMethod::PullRequest) = (hub, target.way) {
        hub.takes_pulls(&target.repo)?;
    }
    let (mut parts, digest) = parts(bundle, target)?;
    // One branch for both is one change.
    if parts[0].0 == parts[1].0 {
        let card = parts.remove(1).1;
        parts[0].1.extend(card);
    }
    let refs = match hub {
        Some(hub) => hub.refs(&target.repo)?,
        None => None,
    };
    let (mut changes, mut rows) = (Vec::new(), Vec::new());
    for (branch, files) in parts {
        let own = refs.as_ref().and_then(|refs| refs.head(&branch));
        // A branch that is to be made begins as `main` is.
        let begins = own.or_else(|| refs.as_ref().and_then(|refs| refs.head(MAIN)));
        let there = match (hub, begins) {
            (Some(hub), Some(commit)) => hub.files(&target.repo, commit, "")?,
            _ => Vec::new(),
        };
        let mut change = plan::compare(&branch, own, &files, &there, target.stale);
        change.base = begins.map(str::to_owned);
        let row = |local: &Local| Row {
            path: local.path.clone(),
            size: local.size,
            mode: plan::guess(local, &there),
        };
        rows.push(change.put.iter().map(row).collect());
        changes.push(change);
    }
    let (name, version, variants) = (bundle.name.clone(), bundle.version, bundle.variants.clone());
    let kernel = Kernel { name, version, variants, digest };
    Ok(Plan { target: target.clone(), makes_repo: refs.is_none(), changes, rows, kernel })
}

impl Plan {
    /// Whether the hub has it all.
    pub fn is_empty(&self) -> bool {
        self.changes.iter().all(|change| change.is_empty() && change.head.is_some())
    }

    /// What a person or a program is shown before anything is sent.
    pub fn shown(&self, endpoint: &str) -> PlanSummary {
        let branch = |(change, rows): (&Change, &Vec<Row>)| {
            let put: Vec<_> = change.put.iter().cloned().zip(rows.iter().map(|row| row.mode)).collect();
            ShownBranch {
                branch: change.branch.clone(),
                makes_branch: change.head.is_none(),
                files: rows.clone(),
                bytes: rows.iter().map(|row| row.size).sum(),
                delete: change.delete.clone(),
                unchanged: change.same,
                commits: plan::commits(&put, &change.delete).len(),
            }
        };
        PlanSummary {
            endpoint: endpoint.to_owned(),
            repo: self.target.repo.to_string(),
            makes_repo: self.makes_repo,
            pull_requests: self.target.way == ChangeMethod::PullRequest,
            branches: self.changes.iter().zip(&self.rows).map(branch).collect(),
        }
    }
}
