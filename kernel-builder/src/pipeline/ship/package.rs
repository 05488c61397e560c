//! Puts verified builds into the hub's layout, in `build/` of the project.

use kernel_plan::units::RelPath;

use crate::agent::tuned::is_settings;
use crate::archive;
use crate::base::files;
use crate::base::session::Session;
use crate::bench::dispatch::Dispatch;
use crate::compile::artifact::Artifact;
use crate::exit::Failure;
use crate::package::{self, Bundle, Contents, PackageError};
use crate::pipeline::project::Project;
use crate::verify::Verified;

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
            "the package replaces a signed one, but is not signed: run `kernelwright sign` before you publish it",
        );
    }
    Ok(bundle)
}

/// Where the results of each variant were checked, a line each.
pub(crate) fn checked(bundle: &Bundle) -> String {
    bundle.status.iter().map(|one| format!("  {}: {one}\n", one.variant)).collect()
}

/// The dispatch tables of `tuned/`, each judged; one of another operation is none of this project's.
pub(crate) fn tables(project: &Project) -> Result<Vec<Dispatch>, Failure> {
    let is_settings_table =
        |path: &&RelPath| path.as_str().starts_with("tuned/") && path.as_str().ends_with(".toml");
    let mut tables = Vec::new();
    for path in project.files.iter().filter(is_settings_table) {
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
