//! What lies behind a key by content, and where.
//!
//! Owns: the places of `objects` and `steps` below a folder. Never: reads or writes them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;

/// What lies behind a key by content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) object: Digest,
    pub(super) log: String,
}

/// The place of an object.
pub(super) fn object_below(root: &Path, digest: &Digest) -> PathBuf {
    let name = digest.to_string();
    root.join("objects").join(&name[..2]).join(name)
}

/// The place of a step.
pub(super) fn step_below(root: &Path, key: &Digest) -> PathBuf {
    let name = key.to_string();
    root.join("steps").join(&name[..2]).join(name)
}
