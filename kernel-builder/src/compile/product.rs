//! What a compiler made of a unit.
//!
//! Owns: where an object came from, and what is kept with it. Never: makes one.

use std::path::PathBuf;

use super::cache::Dependency;

/// Where the object of a unit came from that was not found by its files alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A process of this unit.
    Compiled,
    /// Another variant, project or machine, which compiled the same text.
    Known,
}

/// What a compiler made of a unit, to be kept for later.
pub(super) struct Product {
    pub(super) bytes: Vec<u8>,
    /// What it said.
    pub(super) log: String,
    /// What it read, by name.
    pub(super) files: Vec<PathBuf>,
    /// What it read, as it was.
    pub(super) observed: Vec<Dependency>,
}
