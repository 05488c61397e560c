//! What a bundle is made from.
//!
//! Owns: these types. Never: makes one.

use std::path::Path;

use kernel_plan::spec::{BuildSpec, OpSpec};

use super::launchers::LauncherSource;
use super::metadata::Provenance;
use crate::bench::Measurement;
use crate::bench::dispatch::Dispatch;
use crate::compile::artifact::Artifact;
use crate::verify::Verified;

/// What a bundle is made from.
#[derive(Debug)]
pub struct Contents<'a> {
    /// The project's folder.
    pub project: &'a Path,
    /// build.toml.
    pub build: &'a BuildSpec,
    /// op.toml, where there is one.
    pub op: Option<&'a OpSpec>,
    /// The variants that were verified.
    pub verified: &'a [Verified<Artifact>],
    /// What was measured, for the card.
    pub measured: &'a [Measurement],
    /// Where the sources came from.
    pub provenance: Provenance,
    /// Files that are packaged with them.
    pub additions: Additions,
}

/// What variants have beside what was built.
#[derive(Debug, Default)]
pub struct Additions {
    /// Which calls the kernel serves, by device.
    pub dispatch: Vec<Dispatch>,
    /// The operations that Rust programs may start.
    pub launchers: Vec<LauncherSource>,
}
