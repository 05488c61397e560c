//! `package`: puts verified builds into the hub's layout, in `build/` of the project.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use kernel_plan::units::RelPath;
use serde_json::json;

use crate::agent::tuned::is_settings;
use crate::archive;
use crate::base::files;
use crate::base::session::Session;
use crate::bench::dispatch::Dispatch;
use crate::compile::artifact::Artifact;
use crate::exit::Failure;
use crate::package::{self, Bundle, Contents, PackageError};
use crate::pipeline::build;
use crate::pipeline::judge as verify;
use crate::pipeline::judge::torches::{self as judges, Reach};
use crate::pipeline::project::selection::Selection;
use crate::pipeline::project::{self, Project, ProjectDir};
use crate::pipeline::ship::against;
use crate::verify::Verified;

/// Arrange verified variants in the hub's layout, in build/
///
/// Each variant gets a folder `build/VARIANT/` with a metadata.json. Variants that are not built or verified yet are
/// built and verified first. The folder `build/` is replaced as a whole.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright package my-norm
  kernelwright package my-norm --against published/my-norm")]
pub(crate) struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    judge: verify::How,
    /// Fail if the kernel published in this folder offers something that this one does not, unless `version` is
    /// higher
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let artifacts = build::build(&project, &args.selection, session)?;
    // Before minutes of judging, and not after.
    package::of_the_project_alone(&artifacts).map_err(PackageError::into_failure)?;
    let extras = verify::extras(&project);
    let python = judges::first(&project, &artifacts, extras, session)?;
    let groups = judges::groups(artifacts, &python, Reach::Kept, extras, session)?;
    let verdicts = verify::all(&project, groups, &args.judge, session)?;
    let verified = verify::accept(verdicts, &project)?;
    let bundle = package(&project, &verified, session)?;
    if let Some(dir) = &args.against {
        against::published(&bundle, dir, session)?;
    }
    let human = format!("{}\n{}", bundle.dir.display(), status(&bundle));
    session.report.result("package", &json!({ "bundle": bundle }), &human);
    Ok(())
}

/// Where the results of each variant were checked, a line each.
pub(crate) fn status(bundle: &Bundle) -> String {
    bundle.status.iter().map(|one| format!("  {}: {one}\n", one.variant)).collect()
}

/// Bundles verified artifacts, with what the archive knows of their speed.
pub(crate) fn package(
    project: &Project,
    verified: &[Verified<Artifact>],
    session: &Session,
) -> Result<Bundle, Failure> {
    let measured: Vec<_> = verified
        .iter()
        .flat_map(|artifact| archive::latest(&project.dir, &artifact.inner().digest))
        .collect();
    let contents = Contents {
        project: &project.dir,
        build: &project.build,
        op: project.op.as_ref(),
        verified,
        measured: &measured,
        provenance: project.provenance(),
        dispatch: &tables(project)?,
    };
    let bundle = package::bundle(&contents).map_err(PackageError::into_failure)?;
    if bundle.lost_signature {
        session.report.warn(
            "the package replaces a signed one, and has no signature: run `kernelwright sign` before you publish it",
        );
    }
    Ok(bundle)
}

/// The dispatch tables of `tuned/`, each judged; one of another operation is none of this project's.
pub(crate) fn tables(project: &Project) -> Result<Vec<Dispatch>, Failure> {
    let own = |path: &&RelPath| path.as_str().starts_with("tuned/") && path.as_str().ends_with(".toml");
    let mut tables = Vec::new();
    for path in project.files.iter().filter(own) {
        let text = files::read_text(&project.dir.join(path.as_str()))?;
        // What `fill` leaves in the same folder is for device code.
        if is_settings(&text) {
            continue;
        }
        let table = Dispatch::read(path.as_str(), &text)?;
        if project.op.as_ref().is_some_and(|op| op.name.value.as_str() == table.op) {
            tables.push(table);
        }
    }
    Ok(tables)
}
