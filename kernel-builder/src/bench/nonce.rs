//! Numbers and words that no candidate can guess.
//!
//! Owns: where they come from. Never: prints one.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A word that nobody can guess; the standard library draws the keys of its hash maps from the operating system.
pub(super) fn nonce() -> String {
    format!("{:016x}{:016x}", secret(), secret())
}

/// A number that nobody can guess.
pub(super) fn secret() -> u64 {
    RandomState::new().build_hasher().finish()
}
