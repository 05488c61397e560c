//! `publish`: sends the bundle to where clients load it from.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::report::{self, Report};
use crate::base::session::Session;
use crate::exit::Failure;
use crate::package::{self, Bundle, PackageError};
use crate::pipeline::project;
use crate::pipeline::ship::destination::{self, Destination, HubOptions};
use crate::pipeline::ship::package::checked;
use crate::publish::PublishError;
use crate::publish::hub::PlanSummary;

use super::arguments::ProjectDir;

/// Publish the packaged kernel to a hub or a folder
///
/// On a hub (Hugging Face's, or the one at HF_ENDPOINT), the variants and benchmarks go to the branch `v` plus the
/// version, and the card goes to `main`. Only changed files are sent, so an interrupted run continues, and a second
/// run changes nothing. The token comes from HF_TOKEN, else from `hf auth login`; it is sent to the hub only.
///
/// A folder gets the layout of a hub repository, so `kernels.get_local_kernel(Path(DIR))` loads it. The folder is
/// replaced as a whole, and only if something changed.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright publish --to dist
  kernelwright publish --to hf:me/fast-norm --dry-run
  kernelwright publish --to hf --create-pr")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    /// A folder; `hf` for the repository in build.toml; or `hf:OWNER/NAME` (./hf is a folder named hf)
    #[arg(long, value_name = "DIR|hf[:OWNER/NAME]")]
    to: PathBuf,
    #[command(flatten)]
    hub: OnHub,
}

/// Options of a publication to a hub.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "On a hub")]
struct OnHub {
    /// Repository; default: `repo-id` of `[general.hub]` in build.toml
    #[arg(long, value_name = "OWNER/NAME")]
    repo: Option<String>,
    /// Branch for the variants; default: `branch` of `[general.hub]`, else `v` plus the version
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Create the repository as private, if it does not exist
    #[arg(long)]
    private: bool,
    /// Open one pull request per branch, and leave the branches unchanged
    #[arg(long)]
    create_pr: bool,
    /// Keep variants on the branch that the package does not have, such as those of another machine
    #[arg(long)]
    keep_stale: bool,
    /// Print what would be sent and deleted, and send nothing
    #[arg(long)]
    dry_run: bool,
}

impl OnHub {
    fn options(&self) -> HubOptions {
        HubOptions {
            repo: self.repo.clone(),
            branch: self.branch.clone(),
            private: self.private,
            create_pr: self.create_pr,
            keep_stale: self.keep_stale,
            dry_run: self.dry_run,
        }
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let bundle = package::existing(&project.dir, &project.build)
        .map_err(PackageError::into_failure)?
        .ok_or_else(|| PublishError::NoBundle { project: args.project.dir.clone() })?;
    let sent = match Destination::parse(&args.to, &args.hub.options(), &project.build)? {
        Destination::Hub(target) if args.hub.dry_run => {
            tell_plan(&destination::plan(&bundle, &target, session)?, &bundle, &session.report);
            return Ok(());
        }
        destination => destination.reach(session)?.send(&bundle, session)?,
    };
    let human = format!("{}{}", sent.lines(), checked(&bundle));
    session.report.result("publish", &json!({ "receipt": sent.data(), "status": bundle.status }), &human);
    Ok(())
}

fn tell_plan(plan: &PlanSummary, bundle: &Bundle, report: &Report) {
    let mut human = format!("{}/kernels/{}", plan.endpoint, plan.repo);
    human += if plan.makes_repo { "  (will be created)\n" } else { "\n" };
    for branch in &plan.branches {
        let made = if branch.makes_branch { ", will be created" } else { "" };
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
    human += &format!("\n{}", checked(bundle));
    human += "\nnothing was sent (--dry-run); the hub decides which files are stored as large files (lfs)\n";
    report.result("publish", &json!({ "plan": plan, "status": bundle.status }), &human);
}
