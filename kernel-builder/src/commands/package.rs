//! `package`: puts verified builds into the hub's layout, in `build/` of the project.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::package::{self, PackageError};
use crate::pipeline::ship::against;
use crate::pipeline::ship::package::{checked, for_rust, package};
use crate::pipeline::{build, judge, project};

use super::arguments::{Judging, ProjectDir, Selection};

/// Arrange verified variants in the hub's layout, in build/
///
/// Each variant gets a folder `build/VARIANT/` with a metadata.json. Variants that are not built or verified yet are
/// built and verified first. The folder `build/` is replaced as a whole.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright package my-norm
  kernelwright package my-norm --against published/my-norm")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    judge: Judging,
    /// Fail if the kernel published in this folder offers something that this one does not, unless `version` is
    /// higher
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let artifacts = build::build(&project, &args.selection.selection(), session)?;
    // Before minutes of judging, and not after.
    package::of_the_project_alone(&artifacts).map_err(PackageError::into_failure)?;
    let (extras, judging) = (judge::extras(&project), args.judge.judging());
    let (verified, _) = judge::accepted(&project, artifacts, extras, &judging, session)?;
    let bundle = package(&project, &verified, session)?;
    if let Some(dir) = &args.against {
        against::published(&bundle, dir, session)?;
    }
    let human = format!("{}\n{}{}", bundle.dir.display(), checked(&bundle), for_rust(&bundle));
    session.report.result("package", &json!({ "bundle": bundle }), &human);
    Ok(())
}
