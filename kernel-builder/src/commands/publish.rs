//! `publish`: sends the bundle to where clients load it from.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::env;
use crate::base::session::Session;
use crate::exit::Failure;
use crate::package::{self, PackageError};
use crate::publish::{PublishError, Receipt, folder};

use super::against;
use super::project::{self, ProjectDir};

/// Publish the packaged kernel to a folder
///
/// The folder has the layout of a hub repository: `kernels.get_local_kernel(Path(DIR))` loads it. It is replaced as a
/// whole, and only when something changed.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    /// The folder to publish to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let bundle = package::existing(&project.dir, &project.build)
        .map_err(PackageError::into_failure)?
        .ok_or_else(|| PublishError::NoBundle { project: args.project.dir.clone() })?;
    against::hold(&bundle, &env::absolute(&args.to), session)?;
    let receipt = folder::send(&bundle, &env::absolute(&args.to))?;
    session.report.result("publish", &json!({ "receipt": receipt }), &line(&receipt));
    Ok(())
}

/// What happened, for people.
pub fn line(receipt: &Receipt) -> String {
    let what = if receipt.changed { "published to" } else { "unchanged in" };
    format!("{} v{} {what} {}\n", receipt.name, receipt.version, receipt.target.display())
}
