//! `publish`: sends the bundle to where clients load it from.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use kernel_plan::spec::BuildSpec;
use kernel_plan::units::{GitRef, RepoId};
use serde_json::json;

use crate::base::env;
use crate::base::report::{self, Report};
use crate::base::session::Session;
use crate::exit::Failure;
use crate::hub::{self, Hub, HubError};
use crate::package::{self, Bundle, PackageError};
use crate::publish::hub::{Plan, Shown, Stale, Target, Visibility, Way};
use crate::publish::{PublishError, Receipt, folder, hub as publication};

use super::against;
use super::project::{self, ProjectDir};

/// Publish the packaged kernel to a hub or a folder
///
/// To a hub (Hugging Face's, or the one of HF_ENDPOINT), the variants and benchmarks go to the branch `v` and the version,
/// and the card to `main`. Only what differs is sent, so a run that was interrupted goes on where it was, and a second one
/// changes nothing. The token is that of HF_TOKEN, else of `hf auth login`; no other server than the hub is told it.
///
/// A folder has the layout of a hub's repository: `kernels.get_local_kernel(Path(DIR))` loads it. It is replaced as a
/// whole, and only when something changed.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Examples:\n  kernelwright publish --to dist\n  kernelwright publish --to hf:me/fast-norm --dry-run\n  kernelwright publish --to hf --create-pr"
)]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    /// A folder; or `hf`, the hub, to the repository of build.toml; or `hf:OWNER/NAME` (a folder called hf is ./hf)
    #[arg(long, value_name = "DIR|hf[:OWNER/NAME]")]
    to: PathBuf,
    #[command(flatten)]
    hub: OnHub,
}

/// Options of a publication to a hub.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "On a hub")]
pub struct OnHub {
    /// The repository; default: `repo-id` of [general.hub] in build.toml
    #[arg(long, value_name = "OWNER/NAME")]
    repo: Option<String>,
    /// The branch of the variants; default: `branch` of [general.hub], else `v` and the version
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Make the repository private, where it has to be made
    #[arg(long)]
    private: bool,
    /// Open pull requests, one a branch, and leave the branches as they are
    #[arg(long)]
    create_pr: bool,
    /// Leave the variants of the branch that the package does not have, such as those of another machine
    #[arg(long)]
    keep_stale: bool,
    /// Say what would be sent and deleted, and send nothing
    #[arg(long)]
    dry_run: bool,
}

impl OnHub {
    fn is_given(&self) -> bool {
        let Self { repo, branch, private, create_pr, keep_stale, dry_run } = self;
        repo.is_some() || branch.is_some() || *private || *create_pr || *keep_stale || *dry_run
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let bundle = package::existing(&project.dir, &project.build)
        .map_err(PackageError::into_failure)?
        .ok_or_else(|| PublishError::NoBundle { project: args.project.dir.clone() })?;
    if let Some(named) = on_hub(&args.to) {
        let target = target(named, &args.hub, &project.build, &bundle)?;
        return to_hub(&bundle, &target, args.hub.dry_run, session);
    }
    if args.hub.is_given() {
        let why =
            format!("`--to {}` is a folder, and the options of a hub mean nothing there", args.to.display());
        let help = "write `--to hf` or `--to hf:OWNER/NAME`, or leave them out".to_owned();
        return Err(PublishError::BadTarget { why, help }.into());
    }
    against::hold(&bundle, &env::absolute(&args.to), session)?;
    let receipt = folder::send(&bundle, &env::absolute(&args.to))?;
    session.report.result("publish", &json!({ "receipt": receipt }), &line(&receipt));
    Ok(())
}

/// The repository that `--to` names, empty where build.toml says it; nothing when it is a folder.
fn on_hub(to: &Path) -> Option<&str> {
    let text = to.to_str()?;
    if text == "hf" { Some("") } else { text.strip_prefix("hf:") }
}

fn target(named: &str, args: &OnHub, build: &BuildSpec, bundle: &Bundle) -> Result<Target, PublishError> {
    let own = &build.general.hub;
    let bad = |why: String, help: &str| PublishError::BadTarget { why, help: help.to_owned() };
    let given = Some(named).filter(|named| !named.is_empty()).or(args.repo.as_deref());
    if let (Some(repo), false) = (&args.repo, named.is_empty())
        && repo != named
    {
        return Err(bad(format!("`--to` names {named}, and `--repo` {repo}"), "name one repository"));
    }
    let repo = match (given, &own.repo_id) {
        (Some(text), _) => text.parse::<RepoId>().map_err(|error| {
            bad(error.to_string(), "write it as OWNER/NAME, as in \"kernels-community/activation\"")
        })?,
        (None, Some(repo)) => repo.value.clone(),
        (None, None) => return Err(PublishError::NoRepo { name: bundle.name.clone() }),
    };
    let branch = match (&args.branch, &own.branch) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(branch)) => Some(branch.value.to_string()),
        (None, None) => None,
    };
    let branch = branch.unwrap_or_else(|| format!("v{}", bundle.version));
    let branch =
        branch.parse::<GitRef>().map_err(|error| bad(error.to_string(), "a branch is named as in \"v1\""))?;
    Ok(Target {
        repo,
        branch,
        visibility: if args.private { Visibility::Private } else { Visibility::Default },
        way: if args.create_pr { Way::PullRequest } else { Way::Commit },
        stale: if args.keep_stale { Stale::Keep } else { Stale::Delete },
    })
}

fn to_hub(bundle: &Bundle, target: &Target, dry_run: bool, session: &Session) -> Result<(), Failure> {
    let hub = match Hub::connect(session) {
        Ok(hub) => Some(hub),
        Err(HubError::Offline { why }) if dry_run => {
            session.report.note(format!(
                "{why}: no hub was asked, so everything is taken to be new, and nothing was compared with what users \
                 of an earlier publication count on"
            ));
            None
        }
        Err(error) => return Err(PublishError::from(error).into()),
    };
    let Some(hub) = hub else {
        let plan = publication::plan(bundle, target, None)?;
        tell_plan(&plan.shown(&hub::endpoint()), &session.report);
        return Ok(());
    };
    if hub.is_overheard() {
        session.report.warn(format!(
            "the token goes to {} unencrypted: use https where others can listen",
            hub.endpoint()
        ));
    }
    if !dry_run && !hub.knows_us() && hub.endpoint() == hub::DEFAULT {
        let (doing, endpoint) = (format!("publish to `{}`", target.repo), hub.endpoint().to_owned());
        return Err(PublishError::from(HubError::NoToken { doing, endpoint }).into());
    }
    against::on_hub(bundle, target, &hub, session)?;
    let plan: Plan = publication::plan(bundle, target, Some(&hub))?;
    if dry_run {
        tell_plan(&plan.shown(hub.endpoint()), &session.report);
        return Ok(());
    }
    let receipt = publication::send(&plan, &hub, session)?;
    session.report.result("publish", &json!({ "receipt": receipt }), &hub_lines(&receipt));
    Ok(())
}

fn tell_plan(plan: &Shown, report: &Report) {
    let mut human = format!("{}/kernels/{}", plan.endpoint, plan.repo);
    human += if plan.makes_repo { "  (to be made)\n" } else { "\n" };
    for branch in &plan.branches {
        let made = if branch.makes_branch { ", to be made" } else { "" };
        human += &format!(
            "\nbranch {}{made}: {} to send ({}), {} to delete, {} unchanged, {}{}\n",
            branch.branch,
            branch.files.len(),
            report::bytes(branch.bytes),
            branch.delete.len(),
            branch.unchanged,
            match branch.commits {
                0 => "no commit".to_owned(),
                1 => "1 commit".to_owned(),
                many => format!("{many} commits"),
            },
            if plan.pull_requests && branch.commits > 0 { " in a pull request" } else { "" },
        );
        for file in &branch.files {
            let mode = serde_json::to_value(file.mode).unwrap_or_default();
            let mode = mode.as_str().unwrap_or_default();
            human += &format!("  send    {mode:<8} {:>10}  {}\n", report::bytes(file.size), file.path);
        }
        for path in &branch.delete {
            human += &format!("  delete  {:<8} {:>10}  {path}\n", "", "");
        }
    }
    human += "\nnothing was sent (--dry-run); what is kept as a large file (lfs), the hub decides\n";
    report.result("publish", &json!({ "plan": plan }), &human);
}

/// What happened on a hub, for people.
fn hub_lines(receipt: &publication::Receipt) -> String {
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

/// What happened, for people.
pub fn line(receipt: &Receipt) -> String {
    let what = if receipt.changed { "published to" } else { "unchanged in" };
    format!("{} v{} {what} {}\n", receipt.name, receipt.version, receipt.target.display())
}
