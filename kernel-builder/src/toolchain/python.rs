//! The Python that judges: the active one where it imports torch, else a managed folder of packages.
//!
//! Owns: probing the active interpreter, making the managed folder.
//! Never: installs into a Python of the user's.

use super::{Extras, PythonRuntime, ToolchainError};
use crate::base::session::Session;

/// A Python that imports torch of at least the release line `torch` (`2.11`) and numpy.
pub fn runtime(session: &Session, torch: &str, extras: Extras) -> Result<PythonRuntime, ToolchainError> {
    let _ = (session, torch, extras);
    Err(ToolchainError::NoPython)
}
