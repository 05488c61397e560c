//! How one process of the candidate went.
//!
//! Owns: what is known of a run before its dumps are read. Never: judges it.

use std::collections::BTreeMap;

use super::channel::RoleResult;
use crate::base::digest::Digest;

/// How one process of the candidate went.
pub(crate) struct Run {
    pub ended: RoleResult,
    /// The trial that was begun last.
    pub begun: Option<usize>,
    /// The trials that ended well, as the candidate's process says; their dumps decide.
    pub finished: usize,
    /// Trials that raised, returned something else than tensors of the right form, or touched a tripwire.
    pub complaints: BTreeMap<usize, (&'static str, String)>,
    /// Whether a complaint ended the run, so that the calls after it were never made.
    pub stopped: bool,
    /// Digests of the dumps as they were when the process had ended, before any expected value was written.
    pub dumps: BTreeMap<usize, Digest>,
    /// Bytes that the package keeps between calls, where its process looked.
    pub kept: usize,
}
