//! Sends a bundle to where clients load it from. Targets: a folder ([`folder`]), a hub ([`hub`]).
//!
//! Owns: what a publication holds, the receipt.
//! Never: builds or changes a bundle.

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::base::causes::Cause;
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};
use crate::exit::{self, StageError};
use crate::hub::HubError;
use crate::package::{Bundle, is_shipped};

pub mod api;
pub mod folder;
pub mod hub;
pub mod schema;

/// Why a bundle could not be published.
#[derive(Debug, Error, Diagnostic)]
pub enum PublishError {
    /// A file could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// The target folder holds something else.
    #[error("`{}` contains files that are not a kernel published by this program", dir.display())]
    #[diagnostic(
        code(publish::foreign_folder),
        help("choose an empty or new folder with `--to DIR`; the existing files were not changed")
    )]
    ForeignFolder {
        /// The folder.
        dir: PathBuf,
    },
    /// The target folder holds another kernel.
    #[error("{place} contains the kernel `{there}`, not `{ours}`")]
    #[diagnostic(
        code(publish::other_kernel),
        help(
            "a folder, and a branch of a hub, contains one kernel, which publishing would replace; choose \
             another with `--to`"
        )
    )]
    OtherKernel {
        /// The folder or the branch, for people.
        place: String,
        /// The kernel that is published there.
        there: String,
        /// The kernel that was to be published.
        ours: String,
    },
    /// A request to the hub failed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Hub(#[from] HubError),
    /// No repository is set.
    #[error("no repository of the hub is set for `{name}`")]
    #[diagnostic(
        code(publish::no_repo),
        help(
            "run `kernelwright publish --to hf:OWNER/{name}`, or set `repo-id` in [general.hub] of build.toml"
        )
    )]
    NoRepo {
        /// The kernel.
        name: String,
    },
    /// The target is not a valid repository or branch.
    #[error("not a valid target to publish to")]
    #[diagnostic(code(publish::bad_target), help("{help}"))]
    BadTarget {
        /// What is wrong.
        #[source]
        cause: Cause,
        /// What is right.
        help: String,
    },
    /// The repository's .gitignore excludes a file.
    #[error("the .gitignore of `{repo}` excludes `{path}`")]
    #[diagnostic(
        code(publish::ignored),
        help("remove the line from the .gitignore there: without this file, the kernel does not load")
    )]
    Ignored {
        /// The repository.
        repo: String,
        /// The path in it.
        path: String,
    },
    /// What a package offers could not be read.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Api(#[from] ApiError),
    /// There is no bundle.
    #[error("`{}` has no bundle to publish", project.display())]
    #[diagnostic(code(publish::no_bundle), help("create one: kernelwright package {}", project.display()))]
    NoBundle {
        /// The project.
        project: PathBuf,
    },
}

/// An API that breaks, or that cannot be compared with the published one.
#[derive(Debug, Error, Diagnostic)]
pub enum ApiError {
    /// The API breaks, and the version is the same.
    #[error("this build breaks the API of version {version} of `{name}` in {place}:\n{}", listed(changes))]
    #[diagnostic(
        code(publish::api_break),
        help(
            "users of version {version} rely on it: set `version = {}` in build.toml, or restore it",
            version + 1
        )
    )]
    Break {
        /// The kernel.
        name: String,
        /// The version of both.
        version: u64,
        /// Where it is published, for people.
        place: String,
        /// What is lost.
        changes: Vec<String>,
    },
    /// There is nothing to compare with.
    #[error(
        "`{}` does not contain a published kernel: build/VARIANT/metadata.json is missing",
        dir.display()
    )]
    #[diagnostic(
        code(publish::not_published),
        help("use the folder of a published kernel, or omit --against")
    )]
    Nothing {
        /// The folder.
        dir: PathBuf,
    },
    /// A package whose Python cannot be parsed.
    #[error(
        "`{}` is missing or not valid Python, so the API of the package cannot be compared",
        file.display()
    )]
    #[diagnostic(
        code(publish::unread_api),
        help("run `python -m py_compile` on it to find the error; a package needs an __init__.py")
    )]
    Unread {
        /// The file.
        file: PathBuf,
    },
    /// The child that parses gave no answer.
    #[error("`{}` failed to read the packages: {output}", program.display())]
    #[diagnostic(
        code(publish::unread_api),
        help("Python 3.8 or newer is required; set KERNELWRIGHT_PYTHON to one")
    )]
    Reader {
        /// The interpreter.
        program: PathBuf,
        /// The last line of its output.
        output: String,
    },
    /// Python could not be run.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(crate::base::process::ProcessError),
}

fn listed(changes: &[String]) -> String {
    changes.iter().map(|change| format!("  {change}")).collect::<Vec<_>>().join("\n")
}

impl StageError for ApiError {
    fn exit(&self) -> u8 {
        exit::PUBLISH
    }
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
