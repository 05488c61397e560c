//! Does on a hub what a plan says.
//!
//! Owns: uploads side by side, commits on what was planned on, and what became of a commit without an answer.
//! Never: decides what changes; commits on top of somebody else's change.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::base::report::{self, Event, ProgressKind};
use crate::base::session::Session;
use crate::hub::lfs::{Object, PendingUpload};
use crate::hub::read::Refs;
use crate::hub::write::{CommitTarget, Committed, Mode, Operation, Pull, Question};
use crate::hub::{Hub, HubError};

use super::local::Local;
use super::plan::{self, Change};
use super::{ChangeMethod, MAIN, Plan, PublishError, PublishedCommit, Receipt, Visibility};

/// Files that are uploaded at a time.
const SIDE_BY_SIDE: usize = 4;
/// How often a commit is sent that gets no answer and did not arrive.
const TRIES: usize = 3;
/// The newest pull requests that are looked at for one that holds the same.
const PULLS: usize = 8;

struct Run<'a> {
    plan: &'a Plan,
    hub: &'a Hub,
    session: &'a Session,
    receipt: Receipt,
}

/// Does what the plan says, and tells what that was.
pub fn send(plan: &Plan, hub: &Hub, session: &Session) -> Result<Receipt, PublishError> {
    let (target, kernel) = (&plan.target, plan.kernel.clone());
    let receipt = Receipt {
        name: kernel.name,
        version: kernel.version,
        target: hub.page(&target.repo),
        variants: kernel.variants,
        digest: kernel.digest,
        changed: false,
        endpoint: hub.endpoint().to_owned(),
        repo: target.repo.to_string(),
        branch: target.branch.to_string(),
        revision: None,
        commits: Vec::new(),
        pull_requests: Vec::new(),
        files: 0,
        bytes: 0,
        uploaded: 0,
        deleted: Vec::new(),
        unchanged: plan.changes.iter().map(|change| change.same).sum(),
    };
    let mut run = Run { plan, hub, session, receipt };
    if plan.makes_repo {
        let visibility = (target.visibility == Visibility::Private).then_some("private");
        let began = Instant::now();
        hub.create_repo(&target.repo, visibility)?;
        run.receipt.changed = true;
        run.done("made", &format!("the repository {}", target.repo), "", began);
    }
    let mut changes: Vec<&Change> = plan.changes.iter().collect();
    // A repository without a commit has nothing that a branch could begin from: its first commit is the card.
    if plan.makes_repo && run.refs()?.head(MAIN).is_none() {
        changes.sort_by_key(|change| change.branch != MAIN);
    }
    for change in changes {
        run.change(change)?;
    }
    Ok(run.receipt)
}

impl Run<'_> {
    /// The branches as they are now.
    fn refs(&self) -> Result<Refs, HubError> {
        let repo = &self.plan.target.repo;
        self.hub.refs(repo)?.ok_or_else(|| HubError::NotFound {
            doing: format!("read the branches of `{repo}`"),
            endpoint: self.hub.endpoint().to_owned(),
            message: "the repository does not exist, or is private".to_owned(),
        })
    }

    /// Brings one branch to what it should be.
    fn change(&mut self, change: &Change) -> Result<(), PublishError> {
        let head = match &change.head {
            Some(head) => Some(head.clone()),
            None => self.begin(change)?,
        };
        // What a new repository begins with was not known when everything was taken to be new.
        let now = match &head {
            Some(head) if self.plan.makes_repo => {
                let there = self.hub.files(&self.plan.target.repo, head, "")?;
                plan::compare(&change.branch, Some(head), &change.put, &there, self.plan.target.stale)
            }
            _ => change.clone(),
        };
        let (change, builds) = (&now, change.branch == self.plan.target.branch.as_str());
        if change.is_empty() {
            if builds {
                self.receipt.revision = head;
            }
            return Ok(());
        }
        if self.plan.target.way == ChangeMethod::PullRequest
            && let Some(page) = self.proposed(change)?
        {
            self.receipt.pull_requests.push(page);
            return Ok(());
        }
        let put = self.decide(change, head.as_deref())?;
        self.upload(&change.branch, &put)?;
        let last = self.commit(change, &put, head)?;
        self.receipt.files += put.len();
        self.receipt.bytes += put.iter().map(|(local, _)| local.size).sum::<u64>();
        self.receipt.deleted.extend(change.delete.iter().cloned());
        self.receipt.changed = true;
        if builds && self.plan.target.way == ChangeMethod::Commit {
            self.receipt.revision = last;
        }
        Ok(())
    }

    /// Makes a branch that is not there; gives where it begins, which is what the plan was made with.
    fn begin(&mut self, change: &Change) -> Result<Option<String>, PublishError> {
        let (repo, branch) = (&self.plan.target.repo, change.branch.as_str());
        // `main` comes with the repository, or with its first commit.
        if branch != MAIN {
            self.hub.create_branch(repo, branch)?;
            self.receipt.changed = true;
        }
        let begun = self.refs()?.head(branch).map(str::to_owned);
        if change.base.is_some() && begun != change.base {
            return Err(HubError::Moved { repo: repo.to_string(), branch: branch.to_owned() }.into());
        }
        Ok(begun)
    }

    fn onto<'a>(&self, revision: &'a str, parent: Option<&'a str>, pull: Pull) -> CommitTarget<'a> {
        CommitTarget { revision, parent, pull }
    }

    fn opens(&self) -> Pull {
        if self.plan.target.way == ChangeMethod::PullRequest { Pull::Open } else { Pull::No }
    }

    /// How the hub wants each file.
    fn decide(&self, change: &Change, head: Option<&str>) -> Result<Vec<(Local, Mode)>, PublishError> {
        let mut questions = Vec::new();
        for Local { path, size, sample, .. } in &change.put {
            questions.push(Question { path, size: *size, sample });
        }
        let repo = &self.plan.target.repo;
        let onto = self.onto(&change.branch, head, self.opens());
        let decisions = self.hub.preupload(repo, &onto, &questions)?;
        if let Some((question, _)) = questions.iter().zip(&decisions).find(|(_, decision)| decision.ignored) {
            return Err(PublishError::Ignored { repo: repo.to_string(), path: question.path.to_owned() });
        }
        Ok(change.put.iter().cloned().zip(decisions.into_iter().map(|decision| decision.mode)).collect())
    }

    /// Brings the large files into the storage that it lacks.
    fn upload(&mut self, branch: &str, put: &[(Local, Mode)]) -> Result<(), PublishError> {
        let mut objects: Vec<Object> = Vec::new();
        for (local, _) in put.iter().filter(|(_, mode)| *mode == Mode::Lfs) {
            if !objects.iter().any(|object| object.sha256 == local.sha256) {
                let Local { path, file, size, sha256, .. } = local.clone();
                objects.push(Object { path, file, sha256, size });
            }
        }
        if objects.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let errands = self.hub.missing(&self.plan.target.repo, branch, &objects)?;
        let total = errands.iter().map(|errand| errand.object().size).sum();
        if !errands.is_empty() {
            self.all(&errands, total)?;
            let files = format!("{} large file{}", errands.len(), if errands.len() == 1 { "" } else { "s" });
            self.done("uploaded", &files, &report::bytes(total), began);
        }
        self.receipt.uploaded += total;
        Ok(())
    }

    /// Uploads side by side; the first failure ends it, and what was uploaded stays.
    fn all(&self, errands: &[PendingUpload], total: u64) -> Result<(), HubError> {
        let progress = self.session.report.progress("upload", ProgressKind::Bytes, Some(total));
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let work = || {
            while failed.lock().is_ok_and(|failed| failed.is_none()) {
                let Some(errand) = errands.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                if let Err(error) = self.hub.upload(errand, &progress)
                    && let Ok(mut failed) = failed.lock()
                {
                    failed.get_or_insert(error);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..SIDE_BY_SIDE.min(errands.len()) {
                scope.spawn(work);
            }
        });
        failed.into_inner().ok().flatten().map_or(Ok(()), Err)
    }

    /// Commits a change, in as many commits as it needs; gives the last one.
    fn commit(
        &mut self,
        change: &Change,
        put: &[(Local, Mode)],
        head: Option<String>,
    ) -> Result<Option<String>, PublishError> {
        let commits = plan::commits(put, &change.delete);
        let (mut parent, mut revision, mut pull) = (head, change.branch.clone(), self.opens());
        for (at, operations) in commits.iter().enumerate() {
            let summary = self.summary(at, commits.len());
            let began = Instant::now();
            let onto = self.onto(&revision, parent.as_deref(), pull);
            let made = self.commit_once(&onto, &summary, operations, put)?;
            let detail =
                format!("{} change{}", operations.len(), if operations.len() == 1 { "" } else { "s" });
            self.done("committed", &format!("to {revision}"), &detail, began);
            self.receipt.commits.push(PublishedCommit {
                branch: revision.clone(),
                commit: made.commit.clone(),
                page: made.page,
                operations: operations.len(),
            });
            parent = Some(made.commit);
            if pull == Pull::Open {
                let page = made.pull.ok_or_else(|| HubError::Malformed {
                    doing: "open a pull request".to_owned(),
                    endpoint: self.hub.endpoint().to_owned(),
                    problem: "the URL of the pull request is missing".to_owned(),
                })?;
                // What does not fit into the first commit goes on top of it.
                let number = page.rsplit('/').next().unwrap_or_default();
                revision = format!("refs/pr/{number}");
                pull = Pull::No;
                self.receipt.pull_requests.push(page);
            }
        }
        Ok(parent)
    }

    fn summary(&self, at: usize, of: usize) -> String {
        let Receipt { name, version, .. } = &self.receipt;
        let part = if of == 1 { String::new() } else { format!(" ({} of {of})", at + 1) };
        format!("Publish {name} v{version} with kernelwright {}{part}", env!("CARGO_PKG_VERSION"))
    }

    /// One commit. When no answer comes, or the branch has moved, what lies there says whether it arrived: a server may
    /// fail after it did what was asked, and then find its own work in the way.
    fn commit_once(
        &self,
        onto: &CommitTarget<'_>,
        summary: &str,
        operations: &[Operation],
        put: &[(Local, Mode)],
    ) -> Result<Committed, PublishError> {
        let repo = &self.plan.target.repo;
        for _ in 1..TRIES {
            let lost = match self.hub.commit(repo, onto, summary, operations) {
                Err(
                    error @ (HubError::Unreachable { .. } | HubError::Broken { .. } | HubError::Moved { .. }),
                ) => error,
                other => return Ok(other?),
            };
            // Whether a pull request was opened, the next run finds out: it looks for one that holds the same.
            if onto.pull == Pull::Open || onto.revision.starts_with("refs/pr/") {
                return Err(lost.into());
            }
            let refs = self.refs()?;
            let head = refs.head(onto.revision);
            if head == onto.parent {
                match lost {
                    HubError::Moved { .. } => return Err(lost.into()),
                    _ => continue,
                }
            }
            let there = match head {
                Some(head) => self.hub.files(repo, head, "")?,
                None => Vec::new(),
            };
            let (files, gone) = plan::meant(operations, put);
            return match head.filter(|_| plan::has(&there, &files, &gone)) {
                Some(head) => Ok(Committed { commit: head.to_owned(), page: None, pull: None }),
                None => {
                    let (repo, branch) = (repo.to_string(), onto.revision.to_owned());
                    Err(HubError::Moved { repo, branch }.into())
                }
            };
        }
        Ok(self.hub.commit(repo, onto, summary, operations)?)
    }

    /// The pull request that proposes just this already.
    fn proposed(&self, change: &Change) -> Result<Option<String>, PublishError> {
        let repo = &self.plan.target.repo;
        let refs = self.hub.refs_and_pulls(repo)?.unwrap_or_default();
        let number = |full: &str| full.rsplit('/').next().and_then(|text| text.parse::<u64>().ok());
        let mut pulls: Vec<(u64, &str)> =
            refs.pulls.iter().filter_map(|pull| Some((number(&pull.full)?, pull.commit.as_str()))).collect();
        pulls.sort_unstable();
        for (number, commit) in pulls.into_iter().rev().take(PULLS) {
            let there = self.hub.files(repo, commit, "")?;
            if plan::has(&there, &change.put, &change.delete) {
                return Ok(Some(format!("{}/discussions/{number}", self.hub.page(repo))));
            }
        }
        Ok(None)
    }

    fn done(&self, action: &str, subject: &str, detail: &str, began: Instant) {
        let seconds = began.elapsed().as_secs_f64();
        self.session.report.emit(&Event::Done { action, subject, detail, seconds, cached: false });
    }
}
