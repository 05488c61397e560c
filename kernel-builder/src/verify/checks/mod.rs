//! The checks, one file each; `verify::CHECKS` is their list.
//!
//! Owns: nothing. Never: holds code.

pub(super) mod archs;
pub(super) mod lint;
pub(super) mod load;
pub(super) mod portability;
pub(crate) mod resources;
pub(super) mod results;
pub(super) mod sanitizer;
pub(crate) mod state;
pub(super) mod symbols;
