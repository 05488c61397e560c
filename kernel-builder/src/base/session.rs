//! What every stage is handed: where the cache is, whether downloads are allowed, whom to tell.
//!
//! Owns: the settings of one invocation.
//! Never: does work.

use std::path::PathBuf;

use super::report::Report;

/// The settings of one invocation of the program.
#[derive(Debug)]
pub struct Session {
    /// Whom to tell what happens.
    pub report: Report,
    /// The cache folder; see [`super::env::cache_dir`].
    pub cache: PathBuf,
    /// Refuse downloads: what the cache lacks is an error that names it.
    pub offline: bool,
    /// How many processes may run at a time.
    pub jobs: usize,
}
