//! Sends a bundle to where clients load it from. Targets: a folder ([`folder`]), a hub ([`hub`]).
//!
//! Owns: what a publication holds, the receipt.
//! Never: builds or changes a bundle.

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};
use crate::exit::{self, StageError};
use crate::hub::HubError;
use crate::package::{Bundle, is_shipped};

pub mod folder;
pub mod hub;

/// Why a bundle could not be published.
#[derive(Debug, Error, Diagnostic)]
pub enum PublishError {
    /// A file could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// The target folder holds something else.
    #[error("`{}` holds files that are not a kernel published by this program", dir.display())]
    #[diagnostic(
        code(publish::foreign_folder),
        help("choose an empty or new folder with `--to DIR`; the files there are left as they are")
    )]
    ForeignFolder {
        /// The folder.
        dir: PathBuf,
    },
    /// The target folder holds another kernel.
    #[error("`{}` holds the kernel `{there}`, not `{ours}`", dir.display())]
    #[diagnostic(
        code(publish::other_kernel),
        help("a folder holds one kernel; choose another with `--to DIR`")
    )]
    OtherKernel {
        /// The folder.
        dir: PathBuf,
        /// The kernel that is published there.
        there: String,
        /// The kernel that was to be published.
        ours: String,
    },
    /// A hub could not be asked, or said no.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Hub(#[from] HubError),
    /// Nobody says which repository.
    #[error("nothing says which repository of the hub `{name}` is published to")]
    #[diagnostic(
        code(publish::no_repo),
        help(
            "name it: kernelwright publish --to hf:OWNER/{name}, or `repo-id` in [general.hub] of build.toml"
        )
    )]
    NoRepo {
        /// The kernel.
        name: String,
    },
    /// What was named is no repository or branch.
    #[error("{why}")]
    #[diagnostic(code(publish::bad_target), help("{help}"))]
    BadTarget {
        /// What is wrong.
        why: String,
        /// What is right.
        help: String,
    },
    /// The repository's own rules leave a file out.
    #[error("the .gitignore of `{repo}` leaves out `{path}`")]
    #[diagnostic(
        code(publish::ignored),
        help("take the line out of the .gitignore there: without this file, the kernel would not load")
    )]
    Ignored {
        /// The repository.
        repo: String,
        /// The path in it.
        path: String,
    },
    /// There is no bundle.
    #[error("`{}` has no bundle to publish", project.display())]
    #[diagnostic(code(publish::no_bundle), help("make one: kernelwright package {}", project.display()))]
    NoBundle {
        /// The project.
        project: PathBuf,
    },
}

impl StageError for PublishError {
    fn exit(&self) -> u8 {
        match self {
            Self::Hub(HubError::Interrupted) => exit::INTERRUPTED,
            _ => exit::PUBLISH,
        }
    }
}

/// What was published where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The kernel's name.
    pub name: String,
    /// The kernel's major version.
    pub version: u64,
    /// Where it lies.
    pub target: PathBuf,
    /// The variants.
    pub variants: Vec<String>,
    /// Digest over all that was published, by path and content.
    pub digest: Digest,
    /// Whether anything was written; `false` when the same content was there already.
    #[serde(default)]
    pub changed: bool,
}

/// (path in the publication, file here), sorted.
fn contents(bundle: &Bundle) -> Result<Vec<(PathBuf, PathBuf)>, PublishError> {
    let mut contents = bundle.extra.clone();
    for name in files::walk(&bundle.dir, is_shipped)? {
        let from = bundle.dir.join(&name);
        if name.as_os_str() == "CARD.md" {
            contents.push((PathBuf::from("README.md"), from));
        } else {
            contents.push((Path::new("build").join(&name), from));
        }
    }
    contents.sort();
    Ok(contents)
}

fn digest(contents: &[(PathBuf, PathBuf)]) -> Result<Digest, PublishError> {
    let mut builder = DigestBuilder::new("publication-1");
    for (name, from) in contents {
        builder = builder.file(&name.display().to_string(), from)?;
    }
    Ok(builder.finish())
}
