//! The gates: the checks that only read an artifact, for `build`, which makes nothing that they refuse.
//!
//! Owns: which checks they are, and remembering what they said of the same files. Never: runs code of the artifact.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::evidence::{CheckResult, Environment, Outcome, PROTOCOL};
use super::{CHECKS, CheckMethod, Options, Subject, VerifyError};
use crate::base::digest::Digest;
use crate::base::files;
use crate::base::session::Session;
use crate::compile::artifact::Artifact;

/// What the gates say of one artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gated {
    /// The artifact's content.
    artifact: Digest,
    /// [`PROTOCOL`] at the time.
    protocol: u32,
    /// Whether what needs a newer system than manylinux_2_28 was refused.
    strict: bool,
    /// In the order of the checks.
    pub checks: Vec<CheckResult>,
}

impl Gated {
    /// The checks that ended so.
    pub fn ended(&self, outcome: Outcome) -> impl Iterator<Item = &CheckResult> {
        self.checks.iter().filter(move |check| check.outcome == outcome)
    }
}

/// What the gates say of an artifact, remembered in the file `memory`. Of the options they heed `require_portable`.
///
/// # Errors
/// A file cannot be read or written.
pub fn gate(
    artifact: &Artifact,
    options: &Options,
    memory: &Path,
    session: &Session,
) -> Result<Gated, VerifyError> {
    let strict = options.require_portable;
    let known = recall(artifact, strict, memory);
    let found = if known.is_some() { "hit" } else { "miss" };
    tracing::debug!(target: "cache", "gates of {}: {found}", artifact.variant);
    if let Some(known) = known {
        return Ok(known);
    }
    let mut subject = Subject {
        artifact,
        op: None,
        project: &artifact.dir,
        reference: None,
        python: None,
        options,
        session,
        environment: Environment::default(),
        loaded: None,
    };
    let mut checks = Vec::new();
    for check in CHECKS.iter().filter(|check| check.by == CheckMethod::Reading) {
        checks.extend((check.run)(&mut subject)?);
    }
    let gated = Gated { artifact: artifact.digest, protocol: PROTOCOL, strict, checks };
    files::write(memory, serde_json::to_string_pretty(&gated).unwrap_or_default())?;
    Ok(gated)
}

fn recall(artifact: &Artifact, strict: bool, memory: &Path) -> Option<Gated> {
    let known: Gated = serde_json::from_str(&files::read_text(memory).ok()?).ok()?;
    let same = (known.artifact, known.protocol, known.strict) == (artifact.digest, PROTOCOL, strict);
    same.then_some(known)
}
