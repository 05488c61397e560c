//! What builds a kernel on somebody else's machines: a workflow for GitHub Actions.
//!
//! Owns: which services there are, and the file of each. Never: knows a secret; signs or publishes anything.

use super::{FileSet, ScaffoldError};

/// Check, build, package, sign, publish.
const GITHUB: &str = include_str!("../../resources/ci/github.yml");

/// A service that runs workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Ci {
    /// GitHub Actions: `.github/workflows/kernel.yml`.
    Github,
}

impl Ci {
    /// Adds the workflow to a new project.
    ///
    /// # Errors
    /// The path leaves the project, which it does not.
    pub fn add_to(self, set: &mut FileSet) -> Result<(), ScaffoldError> {
        let Self::Github = self;
        let text = GITHUB
            .replace("@REPOSITORY@", env!("CARGO_PKG_REPOSITORY"))
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        set.insert(".github/workflows/kernel.yml", text)
    }
}
