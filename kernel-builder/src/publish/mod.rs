//! Sends a bundle to where clients load it from. Targets: a folder ([`folder`]).
//!
//! Owns: what a publication holds, the receipt.
//! Never: builds or changes a bundle.

use std::path::PathBuf;

use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::base::digest::Digest;
use crate::base::files::FileError;
use crate::exit::{self, StageError};

pub mod folder;

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
        exit::PUBLISH
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
