//! `build --to`: builds in a copy of the project, for one that is not to be written to.

use std::path::{Path, PathBuf};
use std::time::Instant;

use miette::Diagnostic;
use serde_json::json;
use thiserror::Error;

use crate::base::files;
use crate::base::session::Session;
use crate::compile::artifact;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::build;
use crate::pipeline::project::selection::Selection;
use crate::pipeline::project::{self, Project};
use crate::verify::Options;

/// What would be replaced as a whole is somebody's.
#[derive(Debug, Error, Diagnostic)]
#[error("`{}` is there and holds something", path.display())]
#[diagnostic(code(base::occupied), help("name a folder that is new or empty; nothing was written"))]
struct Occupied {
    path: PathBuf,
}

impl StageError for Occupied {
    fn exit(&self) -> u8 {
        exit::USAGE
    }
}

/// That a folder for results is new or empty.
///
/// # Errors
/// Something is there.
pub(crate) fn vacant(path: &Path) -> Result<(), Failure> {
    if files::exists(path) && !files::is_empty_dir(path) {
        return Err(Occupied { path: path.to_owned() }.into());
    }
    Ok(())
}

/// Builds the selected variants in a copy; `to` gets what the gates let pass, when nothing failed.
pub(crate) fn build(
    project: &Project,
    selection: &Selection,
    to: &Path,
    session: &Session,
) -> Result<(), Failure> {
    vacant(to)?;
    let started = Instant::now();
    let scratch = files::scratch()?;
    let folder = scratch.path().join(project.build.general.name.as_str());
    project.copy_to(&folder)?;
    let copy = project::load(&folder, session)?;
    let (built, summary) = build::gated(&copy, selection, &Options::standard(), session)?;
    summary.verdict()?;
    let staged = files::staging_beside(to)?;
    for built in &built {
        artifact::copy_into(&built.artifact, staged.path())?;
    }
    files::replace_dir(staged, to)?;
    let seconds = started.elapsed().as_secs_f64();
    let data = json!({ "dir": to, "variants": build::rows(&built, None), "seconds": seconds });
    session.report.result("build", &data, &build::table(&built, None));
    Ok(())
}
