//! How kernels are started: parts of op.toml.
//!
//! Owns: their texts so far. Never: writes one.

use super::super::super::program::Tensor;

/// How kernels are started: parts of op.toml.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    /// `[let]`.
    pub(crate) lets: String,
    /// `[tune]`.
    pub(crate) tune: String,
    /// `[[launch.kernel]]`.
    pub(crate) kernels: String,
    /// Workspaces of reductions that are divided.
    pub(crate) partial: Vec<Tensor>,
    /// Whether `few` is used.
    pub(crate) uses_few: bool,
}
