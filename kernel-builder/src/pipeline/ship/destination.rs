//! Where a package goes: what `--to` of `publish` and `make` names, and the way there.
//!
//! Owns: reading `--to`, that a hub can be asked before anything is made for it, comparing before sending, what is said.
//! Never: makes a package.

use std::path::{Path, PathBuf};

use kernel_plan::spec::BuildSpec;
use kernel_plan::units::{GitRef, RepoId};
use serde_json::{Value, json};

use crate::base::causes::Cause;
use crate::base::env;
use crate::base::report;
use crate::base::session::Session;
use crate::exit::Failure;
use crate::hub::{self, Hub, HubError};
use crate::package::Bundle;
use crate::pipeline::ship::against;
use crate::publish::hub::{ChangeMethod, PlanSummary, StaleFiles, Target, Visibility};
use crate::publish::{PublishError, Receipt, folder, hub as publication};

/// What a person asks of a publication to a hub.
#[derive(Debug, Default)]
pub(crate) struct HubOptions {
    /// The repository; that of build.toml if `None`.
    pub(crate) repo: Option<String>,
    /// The branch for the variants; that of build.toml, else `v` plus the version, if `None`.
    pub(crate) branch: Option<String>,
    /// A repository that does not exist is made as a private one.
    pub(crate) private: bool,
    /// One pull request per branch, and the branches stay as they are.
    pub(crate) create_pr: bool,
    /// Variants stay on the branch that the package does not have.
    pub(crate) keep_stale: bool,
    /// Nothing is sent.
    pub(crate) dry_run: bool,
}

impl HubOptions {
    /// Whether one of them is given.
    fn is_given(&self) -> bool {
        let Self { repo, branch, private, create_pr, keep_stale, dry_run } = self;
        repo.is_some() || branch.is_some() || *private || *create_pr || *keep_stale || *dry_run
    }
}

/// What `--to` names.
#[derive(Debug)]
pub(crate) enum Destination {
    /// A folder.
    Folder(PathBuf),
    /// A branch of a repository of the hub.
    Hub(Target),
}

/// A destination that can be sent to.
#[derive(Debug)]
pub(crate) enum OpenDestination {
    /// A folder.
    Folder(PathBuf),
    /// A branch of a repository, and the hub.
    Hub(Box<(Target, Hub)>),
}

/// What was sent.
#[derive(Debug)]
pub(crate) enum PublicationResult {
    /// To a folder.
    Folder(Receipt),
    /// To a hub.
    Hub(Box<publication::Receipt>),
}

impl Destination {
    /// A folder, `hf`, or `hf:OWNER/NAME`.
    ///
    /// # Errors
    /// It names no repository, or options of a hub are given for a folder.
    pub(crate) fn parse(to: &Path, options: &HubOptions, build: &BuildSpec) -> Result<Self, PublishError> {
        if let Some(named) = named(to) {
            return target(named, options, build).map(Self::Hub);
        }
        if options.is_given() {
            let problem = format!("`--to {}` is a folder, but other options are for a hub", to.display());
            let help = "write `--to hf` or `--to hf:OWNER/NAME`, or remove the options for a hub".to_owned();
            return Err(PublishError::BadTarget { cause: problem.into(), help });
        }
        Ok(Self::Folder(env::absolute(to)))
    }

    /// Finds out what can be found out before there is anything to send.
    ///
    /// # Errors
    /// The hub may not be asked, or nobody says who asks.
    pub(crate) fn reach(self, session: &Session) -> Result<OpenDestination, PublishError> {
        let target = match self {
            Self::Folder(dir) => return Ok(OpenDestination::Folder(dir)),
            Self::Hub(target) => target,
        };
        let hub = connect(session)?;
        if !hub.knows_us() && hub.endpoint() == hub::DEFAULT {
            let (doing, endpoint) = (format!("publish to `{}`", target.repo), hub.endpoint().to_owned());
            return Err(HubError::NoToken { doing, endpoint }.into());
        }
        Ok(OpenDestination::Hub(Box::new((target, hub))))
    }
}

/// The hub of the environment, with a warning where others hear the token.
fn connect(session: &Session) -> Result<Hub, PublishError> {
    let hub = Hub::connect(session)?;
    if hub.is_overheard() {
        session.report.warn(format!(
            "the token is sent unencrypted to {}: use https on shared networks",
            hub.endpoint()
        ));
    }
    Ok(hub)
}

/// What would be sent; without a network, as far as it can be said.
///
/// # Errors
/// The hub refuses, or users of what is published would lose something.
pub(crate) fn plan(bundle: &Bundle, target: &Target, session: &Session) -> Result<PlanSummary, Failure> {
    match connect(session) {
        Ok(hub) => {
            against::on_hub(bundle, target, &hub, session)?;
            let plan = publication::plan(bundle, target, Some(&hub))?;
            Ok(plan.shown(hub.endpoint()))
        }
        Err(PublishError::Hub(HubError::Offline { setting })) => {
            session.report.note(format!(
                "{setting}: the hub was not contacted, so every file counts as new, and the API was not compared with an \
                 earlier publication"
            ));
            let plan = publication::plan(bundle, target, None)?;
            Ok(plan.shown(&hub::endpoint()))
        }
        Err(error) => Err(error.into()),
    }
}

impl OpenDestination {
    /// For people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Folder(dir) => dir.display().to_string(),
            Self::Hub(hub) => format!("{}, branch {}", hub.1.page(&hub.0.repo), hub.0.branch),
        }
    }

    /// Asks the hub for the repository: one that does not answer, or does not take the token, is told before long work.
    ///
    /// # Errors
    /// The hub cannot be asked.
    pub(crate) fn greet(&self) -> Result<(), PublishError> {
        if let Self::Hub(hub) = self {
            let (target, hub) = hub.as_ref();
            hub.refs(&target.repo)?;
            if target.way == ChangeMethod::PullRequest {
                hub.takes_pulls(&target.repo)?;
            }
        }
        Ok(())
    }

    /// Holds the package against what is there, and sends it.
    pub(crate) fn send(&self, bundle: &Bundle, session: &Session) -> Result<PublicationResult, Failure> {
        match self {
            Self::Folder(dir) => {
                against::hold(bundle, dir, session)?;
                Ok(PublicationResult::Folder(folder::send(bundle, dir)?))
            }
            Self::Hub(hub) => {
                let (target, hub) = hub.as_ref();
                against::on_hub(bundle, target, hub, session)?;
                let plan = publication::plan(bundle, target, Some(hub))?;
                Ok(PublicationResult::Hub(Box::new(publication::send(&plan, hub, session)?)))
            }
        }
    }
}

impl PublicationResult {
    /// The receipt.
    pub(crate) fn data(&self) -> Value {
        match self {
            Self::Folder(receipt) => json!(receipt),
            Self::Hub(receipt) => json!(receipt),
        }
    }

    /// What happened, for people.
    pub(crate) fn lines(&self) -> String {
        match self {
            Self::Folder(receipt) => in_folder(receipt),
            Self::Hub(receipt) => on_hub(receipt),
        }
    }

    /// A command that loads it.
    pub(crate) fn command(&self) -> String {
        match self {
            Self::Folder(receipt) => format!(
                "python -c \"from pathlib import Path; from kernels import get_local_kernel; \
                 print(get_local_kernel(Path('{}'), backend='cpu'))\"",
                receipt.target.display()
            ),
            Self::Hub(receipt) => {
                let publication::Receipt { endpoint, repo, branch, version, .. } = receipt.as_ref();
                let hub =
                    if endpoint == hub::DEFAULT { String::new() } else { format!("HF_ENDPOINT={endpoint} ") };
                let which = match branch.strip_prefix('v') {
                    Some(digits) if digits == version.to_string() => format!("version={version}"),
                    _ => format!("revision='{branch}'"),
                };
                format!(
                    "{hub}python -c \"from kernels import get_kernel; print(get_kernel('{repo}', {which}))\""
                )
            }
        }
    }
}

/// The repository that `--to` names, empty where build.toml says it; nothing when it is a folder.
fn named(to: &Path) -> Option<&str> {
    let text = to.to_str()?;
    if text == "hf" { Some("") } else { text.strip_prefix("hf:") }
}

fn target(named: &str, args: &HubOptions, build: &BuildSpec) -> Result<Target, PublishError> {
    let own = &build.general.hub;
    let bad = |cause: Cause, help: &str| PublishError::BadTarget { cause, help: help.to_owned() };
    let given = Some(named).filter(|named| !named.is_empty()).or(args.repo.as_deref());
    if let (Some(repo), false) = (&args.repo, named.is_empty())
        && repo != named
    {
        let problem = format!("`--to` names {named}, but `--repo` names {repo}");
        return Err(bad(problem.into(), "name one repository"));
    }
    let repo = match (given, &own.repo_id) {
        (Some(text), _) => text.parse::<RepoId>().map_err(|error| {
            bad(error.into(), "write it as OWNER/NAME, as in \"kernels-community/activation\"")
        })?,
        (None, Some(repo)) => repo.value.clone(),
        (None, None) => return Err(PublishError::NoRepo { name: build.general.name.to_string() }),
    };
    let branch = match (&args.branch, &own.branch) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(branch)) => Some(branch.value.to_string()),
        (None, None) => None,
    };
    let branch = branch.unwrap_or_else(|| format!("v{}", build.general.version.value));
    let branch =
        branch.parse::<GitRef>().map_err(|error| bad(error.into(), "use a branch name such as \"v1\""))?;
    Ok(Target {
        repo,
        branch,
        visibility: if args.private { Visibility::Private } else { Visibility::Default },
        way: if args.create_pr { ChangeMethod::PullRequest } else { ChangeMethod::Commit },
        stale: if args.keep_stale { StaleFiles::Keep } else { StaleFiles::Delete },
    })
}

/// What happened on a hub, for people.
fn on_hub(receipt: &publication::Receipt) -> String {
    let publication::Receipt { name, version, target, branch, .. } = receipt;
    let what = match (receipt.changed, receipt.pull_requests.is_empty()) {
        (_, false) => "proposed to",
        (true, true) => "published to",
        (false, true) => "unchanged in",
    };
    let mut text = format!("{name} v{version} {what} {target}, branch {branch}\n");
    if receipt.changed {
        let gone = receipt.deleted.len();
        text += &format!(
            "  {} changed ({}, {} uploaded as large files), {gone} deleted, {} unchanged\n",
            if receipt.files == 1 { "1 file".to_owned() } else { format!("{} files", receipt.files) },
            report::bytes(receipt.bytes),
            report::bytes(receipt.uploaded),
            receipt.unchanged
        );
    }
    for page in &receipt.pull_requests {
        text += &format!("  pull request: {page}\n");
    }
    text
}

/// What happened in a folder, for people.
fn in_folder(receipt: &Receipt) -> String {
    let what = if receipt.changed { "published to" } else { "unchanged in" };
    format!("{} v{} {what} {}\n", receipt.name, receipt.version, receipt.target.display())
}
