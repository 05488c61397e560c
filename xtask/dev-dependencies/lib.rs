//! No code: cargo only reads the manifest beside this file, which says why.
//!
//! Owns: nothing. Never: is a dependency of another crate.
