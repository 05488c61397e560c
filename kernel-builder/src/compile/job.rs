//! What is built, how, and what came of it.
//!
//! Owns: these types. Never: builds anything.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::VariantPlan;

use super::artifact::Artifact;
use super::error::CompileError;

/// A variant's plan with the tools that its commands name.
#[derive(Debug, Clone)]
pub struct Job {
    /// What to run.
    pub plan: VariantPlan,
    /// With what; its identities go into the cache keys. Absent where nothing is compiled.
    pub kit: Option<Toolchain>,
    /// The commit of the sources, for the artifact's description.
    pub commit: Option<String>,
    /// The files of the project that the extension's name covers.
    pub named: BTreeSet<String>,
}

/// What building one variant came to.
pub type Outcome = Result<Artifact, Vec<CompileError>>;

/// What is done when a variant fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The others are built.
    #[default]
    Continue,
    /// Nothing more is begun; what runs comes to its end.
    Stop,
}

/// How a build is conducted.
#[derive(Debug, Clone, Default)]
pub struct BuildPolicy {
    /// What is done when a variant fails.
    pub on_failure: OnFailure,
    /// Where the report is written too, beside the project's own.
    pub report: Option<PathBuf>,
}
