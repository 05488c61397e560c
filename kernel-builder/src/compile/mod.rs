//! Runs the planned commands in a bounded pool and assembles the importable package of each variant.
//!
//! Owns: the pool, the compile cache, the logs, the artifact folder.
//! Never: decides flags (the backends do), judges the result.

pub mod artifact;
