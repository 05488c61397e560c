//! Why a bundle could not be made.
//!
//! Owns: the errors of this stage. Never: looks at a file.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use super::signature;
use crate::base::files::FileError;
use crate::exit::{self, Failure, StageError};

/// Why a bundle could not be made.
#[derive(Debug, Error, Diagnostic)]
pub enum PackageError {
    /// A file could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// A file holds a secret.
    #[error("{}:{line}: {what} would be published", file.display())]
    #[diagnostic(
        code(package::secret),
        help(
            "remove it from the project and have it revoked: anyone who saw the file has it. \
             Nothing was written"
        )
    )]
    Secret {
        /// The file in the publication.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What it looks like.
        what: String,
    },
    /// A file that does not belong in a package.
    #[error("{} would be published: {problem}", file.display())]
    #[diagnostic(code(package::stray), help("remove it, or remove its ending from `pyext` in build.toml"))]
    Stray {
        /// The file in the publication.
        file: PathBuf,
        /// Why.
        problem: String,
    },
    /// A build that cannot be repeated from the project's source.
    #[error("{variant} was built with files outside of the project: {}", files.join(", "))]
    #[diagnostic(
        code(package::outside),
        help(
            "copy them into the project, or add them as a git submodule, and build again: a published build \
             must be reproducible from the project's source"
        )
    )]
    Outside {
        /// The variant.
        variant: String,
        /// The files, as the compiler named them.
        files: Vec<String>,
    },
    /// build.toml has changed since.
    #[error("{} was packaged as {then}, but build.toml says {now}", variant.display())]
    #[diagnostic(code(package::stale), help("run `kernelwright package` again"))]
    Stale {
        /// The variant in the publication.
        variant: PathBuf,
        /// The kernel and version of the package.
        then: String,
        /// Those of build.toml.
        now: String,
    },
    /// A file is another one than when the variant was verified and packaged.
    #[error("{} was changed or added after packaging", file.display())]
    #[diagnostic(
        code(package::changed),
        help(
            "this file was not verified, and clients refuse a file with another digest: run \
             `kernelwright package` again"
        )
    )]
    Changed {
        /// The file in the publication.
        file: PathBuf,
    },
    /// Libraries of the package disturb each other.
    #[error("the variants of the package cannot be loaded together: {summary}")]
    #[diagnostic(code(verify::clash), help("run `kernelwright explain verify::clash` for details"))]
    Clash {
        /// What they have in common.
        summary: String,
    },
    /// It changed after it was signed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Signature(#[from] signature::SignatureError),
    /// Several of these.
    #[error("the package has {} problems", .0.len())]
    #[diagnostic(code(package::stray), help("each problem is reported separately"))]
    Several(Vec<PackageError>),
}

impl PackageError {
    /// Every problem on its own.
    pub fn into_failure(self) -> Failure {
        match self {
            Self::Several(all) => {
                let mut failure = Failure::already_reported(exit::PACKAGE);
                all.into_iter().for_each(|one| failure.join(one.into_failure()));
                failure
            }
            one => one.into(),
        }
    }
}

impl StageError for PackageError {
    fn exit(&self) -> u8 {
        exit::PACKAGE
    }
}
