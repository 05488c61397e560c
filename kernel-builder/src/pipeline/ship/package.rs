//! Puts verified builds into the hub's layout, in `build/` of the project.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::host::rust;
use kernel_plan::spec::launch::Launch;
use kernel_plan::spec::parse_op;
use kernel_plan::units::RelPath;
use toml_edit::DocumentMut;

use crate::agent::tuned::is_settings;
use crate::archive;
use crate::base::files;
use crate::base::session::Session;
use crate::bench::dispatch::Dispatch;
use crate::compile::artifact::Artifact;
use crate::exit::Failure;
use crate::package::{self, Additions, Bundle, Contents, LauncherSource, PackageError};
use crate::pipeline::create::generate::measured;
use crate::pipeline::project::Project;
use crate::verify::Verified;

/// The files of operations that have functions.
const OPERATIONS: [&str; 2] = ["op.toml", "backward.toml"];

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
        additions: additions(project, session)?,
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

/// What the operations of a bundle are called from besides Python, a line; nothing if that is nothing.
pub(crate) fn for_rust(bundle: &Bundle) -> String {
    if bundle.for_rust.is_empty() {
        String::new()
    } else {
        format!("  Rust: {}\n", bundle.for_rust.join(", "))
    }
}

/// The dispatch tables of a project, and how Rust programs start its kernels.
///
/// # Errors
/// A file of `tuned/` is damaged.
pub(crate) fn additions(project: &Project, session: &Session) -> Result<Additions, Failure> {
    Ok(Additions { dispatch: tables(project)?, launchers: launchers(project, session)? })
}

/// The operations with `[launch]` that a Rust module can be generated for: that of op.toml, and that of its gradient.
fn launchers(project: &Project, session: &Session) -> Result<Vec<LauncherSource>, Failure> {
    let mut found = vec![];
    for file in OPERATIONS.into_iter().filter(|file| files::exists(&project.dir.join(file))) {
        let path = project.dir.join(file);
        let text = without_workloads(&files::read_text(&path)?);
        // A file with errors has been reported; one that cannot do without its workloads has no launchers.
        let (Some(op), _) = parse_op(SourceFile::new(file, text.clone())) else { continue };
        // A project for processors alone has no device code, though op.toml says how it would be started.
        let has_code = |launch: &Launch| files::exists(&project.dir.join(launch.source.value.as_str()));
        if !op.launch.as_ref().is_some_and(has_code) {
            continue;
        }
        let settings = measured(&path, &op, session)?;
        // An error is a form of `[launch]` that has no Rust function.
        let Ok(plan) = rust::of_library(&op, &settings) else { continue };
        found.push(LauncherSource { file: file.to_owned(), text, settings, plan });
    }
    Ok(found)
}

/// The text of an op.toml without what only measuring and judging need.
fn without_workloads(text: &str) -> String {
    let Ok(mut document) = text.parse::<DocumentMut>() else { return text.to_owned() };
    document.remove("workload");
    document.to_string()
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
