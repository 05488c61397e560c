//! What is judged, and how.
//!
//! Owns: the options of a judgement, what its checks hand on, the codes of what they could not do. Never: checks anything.

use std::path::Path;
use std::time::Duration;

use kernel_plan::spec::OpSpec;

use super::evidence::Environment;
use super::reference::ReferenceFile;
use crate::base::env;
use crate::base::session::Session;
use crate::compile::artifact::Artifact;
use crate::toolchain::PythonRuntime;

/// How to judge.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The seed of the inputs, to repeat a judgement; secret and new when absent.
    pub seed: Option<u64>,
    /// Wall-clock time for all calls of the candidate together.
    pub deadline: Duration,
    /// Resident bytes that the candidate's process may use.
    pub memory: u64,
    /// Threads for every computation on the host.
    pub threads: usize,
    /// Refuse a library that does not load on manylinux_2_28 hosts, in place of warning.
    pub require_portable: bool,
    /// Call a CUDA kernel under compute-sanitizer, too.
    pub sanitize: bool,
    /// Refuse device code that reads a clock, in place of warning.
    pub strict: bool,
}

impl Options {
    /// A new seed, three minutes, 16 GiB, every processor, portability as a warning.
    pub fn standard() -> Self {
        Self {
            seed: None,
            deadline: Duration::from_secs(180),
            memory: 16 << 30,
            threads: env::processors(),
            require_portable: false,
            sanitize: false,
            strict: false,
        }
    }
}

/// What the checks work on, and what earlier checks found out.
pub(super) struct Subject<'a> {
    pub(super) artifact: &'a Artifact,
    pub(super) op: Option<&'a OpSpec>,
    pub(super) project: &'a Path,
    /// The file of the reference as it was before the first check.
    pub(super) reference: Option<&'a ReferenceFile>,
    pub(super) python: Option<&'a PythonRuntime>,
    pub(super) options: &'a Options,
    pub(super) session: &'a Session,
    pub(super) environment: Environment,
    /// Set by the check `load`.
    pub(super) loaded: Option<ImportReport>,
}

/// What the package said of itself when it was imported.
pub(super) struct ImportReport {
    pub(super) cuda_available: bool,
    pub(super) has_function: bool,
}
