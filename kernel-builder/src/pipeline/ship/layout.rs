//! Builds as the hub takes them, from a builder that could only judge what can be read from them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;

use crate::base::env;
use crate::base::session::Session;
use crate::compile::artifact::{self, Artifact, Builds};
use crate::exit::{self, Failure, StageError};
use crate::package::{self, PackageError};
use crate::pipeline::project::Project;

use super::package::additions;

/// Why there is nothing to lay out, or too much.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum LayoutError {
    /// A folder holds no build.
    #[error("`{}` has no build from `build --to`", folder.display())]
    #[diagnostic(
        code(package::no_build),
        help("run kernelwright build --to {} in the project", folder.display())
    )]
    NoBuild {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder holds something of a variant that is not what was built.
    #[error("damaged build in `{}`: {}: a file was changed, or a copy is incomplete", folder.display(), variants.join(", "))]
    #[diagnostic(
        code(package::damaged_build),
        help("rebuild with `kernelwright build --to`, or copy the whole folder again; nothing was laid out")
    )]
    Damaged {
        /// The folder.
        folder: PathBuf,
        /// The variants.
        variants: Vec<String>,
    },
    /// One variant has two builds.
    #[error("several folders of `--from` have different builds of {}", variants.join(", "))]
    #[diagnostic(code(package::two_builds), help("name one folder for each variant"))]
    Twice {
        /// The variants.
        variants: Vec<String>,
    },
    /// Several builds would be one.
    #[error("`--alone` takes one build, but there are several: {}", variants.join(", "))]
    #[diagnostic(code(package::not_alone), help("remove `--alone`: each build gets its own folder"))]
    NotAlone {
        /// The builds.
        variants: Vec<String>,
    },
}

impl StageError for LayoutError {
    fn exit(&self) -> u8 {
        exit::PACKAGE
    }
}

/// Lays out the builds of some folders in `to`, or `alone` as that folder itself; gives their variants.
///
/// # Errors
/// [`LayoutError`], or a file could not be written.
pub(crate) fn lay_out(
    project: &Project,
    from: &[PathBuf],
    to: &Path,
    alone: bool,
    session: &Session,
) -> Result<Vec<String>, Failure> {
    let artifacts = artifacts(from)?;
    let variants: Vec<String> = artifacts.iter().map(|artifact| artifact.variant.clone()).collect();
    if alone && artifacts.len() > 1 {
        return Err(LayoutError::NotAlone { variants }.into());
    }
    let contents = package::Unverified {
        build: &project.build,
        artifacts: &artifacts,
        provenance: project.provenance(),
        additions: additions(project, session)?,
    };
    package::lay_out(&contents, to, alone).map_err(PackageError::into_failure)?;
    Ok(variants)
}

/// Every build in the folders, one of each variant.
fn artifacts(folders: &[PathBuf]) -> Result<Vec<Artifact>, Failure> {
    let mut artifacts: Vec<Artifact> = Vec::new();
    let mut twice = BTreeSet::new();
    for folder in folders {
        let Builds { sound, damaged } = artifact::in_folder(&env::absolute(folder))?;
        if !damaged.is_empty() {
            return Err(LayoutError::Damaged { folder: folder.clone(), variants: damaged }.into());
        }
        if sound.is_empty() {
            return Err(LayoutError::NoBuild { folder: folder.clone() }.into());
        }
        for artifact in sound {
            match artifacts.iter().find(|one| one.variant == artifact.variant) {
                None => artifacts.push(artifact),
                Some(one) if one.digest == artifact.digest => {}
                Some(_) => {
                    twice.insert(artifact.variant);
                }
            }
        }
    }
    if twice.is_empty() {
        Ok(artifacts)
    } else {
        Err(LayoutError::Twice { variants: twice.into_iter().collect() }.into())
    }
}
