//! Why a published kernel cannot be used.
//!
//! Owns: the errors. Never: decides.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::exit::{self, StageError};

/// A published kernel that cannot be used.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum PublishedError {
    /// The text of a dependency.
    #[error("not a valid dependency: `{text}`")]
    #[diagnostic(
        code(compile::bad_dependency),
        help(
            "write NAME@VERSION=PLACE or NAME@VERSION/VARIANT=PLACE, as in rms-norm@1=hf:OWNER/rms-norm; PLACE can be a folder that `publish` wrote"
        )
    )]
    BadDependency {
        /// The text.
        text: String,
    },
    /// There is no such kernel.
    #[error("{place} has no kernel `{name}` of version {version}: {found}")]
    #[diagnostic(
        code(compile::not_published),
        help("correct the name, the version or the place in [package.metadata.kernelwright.dependencies]")
    )]
    NotPublished {
        /// The folder or repository.
        place: String,
        /// The kernel.
        name: String,
        /// Its version.
        version: u64,
        /// What there is.
        found: String,
    },
    /// A package for Python alone.
    #[error("{place} has nothing that a Rust program can start ({found})")]
    #[diagnostic(
        code(compile::no_launchers),
        help(
            "a variant for cuda needs launchers.json: `kernelwright package` writes it for an op.toml with [launch] and a \
             generated host side; `kernelwright embed --stubs` tells what prevents it"
        )
    )]
    NoLaunchers {
        /// The folder or repository.
        place: String,
        /// What it has.
        found: String,
    },
    /// The lock file is missing, or for other dependencies.
    #[error("lock file `{}` is out of date: {problem}", lock.display())]
    #[diagnostic(code(compile::lock_out_of_date), help("run `cargo kernelwright pin`, and commit the file"))]
    LockOutOfDate {
        /// The file.
        lock: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Other bytes than those that are locked.
    #[error("hash mismatch for `{file}` of {place}: expected {expected}, got {got}")]
    #[diagnostic(code(compile::wrong_digest), help("{help}"))]
    WrongDigest {
        /// The file, as the package names it.
        file: String,
        /// The folder or repository.
        place: String,
        /// SHA-256.
        expected: String,
        /// SHA-256, or that the file is missing.
        got: String,
        /// What to do.
        help: String,
    },
    /// Other functions than those that are locked.
    #[error("{place} has other functions than those in the lock file:\n{}", changes.join("\n"))]
    #[diagnostic(
        code(compile::changed_signature),
        help(
            "run `cargo kernelwright pin` to take them, then change your calls; or publish the locked version again"
        )
    )]
    ChangedSignature {
        /// The folder or repository.
        place: String,
        /// A line for each.
        changes: Vec<String>,
    },
    /// launchers.json of another program.
    #[error("launchers.json of {place} cannot be used: {problem}")]
    #[diagnostic(
        code(compile::other_launchers),
        help("update kernelwright, or publish the kernel again with this version")
    )]
    OtherLaunchers {
        /// The folder or repository.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// Not in the cache, and no network.
    #[error("{place} is not in the cache, and network access is disabled by {setting}")]
    #[diagnostic(
        code(compile::not_cached),
        help("build once with a network; the cache then has all files of the lock")
    )]
    NotCached {
        /// The repository.
        place: String,
        /// The option or variable.
        setting: &'static str,
    },
}

impl StageError for PublishedError {
    fn exit(&self) -> u8 {
        exit::COMPILE
    }
}
