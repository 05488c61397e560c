//! What a judgement leaves behind: the evidence, and the artifact that carries it.
//!
//! Owns: `Verified`, which nothing outside of `verify` can make, and the evidence's form on disk.
//! Never: runs a check.

use std::path::Path;

use kernel_plan::spec::OpSpec;
use serde::{Deserialize, Serialize};

use super::error::VerifyError;
use super::machine::gpu_present;
use super::reference::ReferenceFile;
use super::skipped::NO_GPU;
use crate::base::digest::Digest;
use crate::base::files;
use crate::compile::artifact::Artifact;

/// Raised whenever a check is added or gets stricter, so that older evidence no longer counts.
pub const PROTOCOL: u32 = 14;

/// Something that passed every check that could be made here.
///
/// Only `verify` builds it; measuring and packaging take nothing else.
#[derive(Debug, Clone)]
pub struct Verified<T> {
    inner: T,
    evidence: Evidence,
}

impl<T> Verified<T> {
    /// What was verified.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Why it counts as verified.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    pub(super) fn new(inner: T, evidence: Evidence) -> Self {
        Self { inner, evidence }
    }
}

/// The end of a judgement.
#[derive(Debug)]
pub enum Verdict {
    /// Every check passed, warned, or could not be made here.
    Verified(Verified<Artifact>),
    /// At least one check refused the artifact.
    Refused {
        /// What was judged.
        artifact: Artifact,
        /// All checks, with the reasons.
        evidence: Evidence,
    },
}

impl Verdict {
    /// The evidence, whatever the verdict.
    pub fn evidence(&self) -> &Evidence {
        match self {
            Self::Verified(verified) => verified.evidence(),
            Self::Refused { evidence, .. } => evidence,
        }
    }

    /// The build, whatever the verdict.
    pub fn artifact(&self) -> &Artifact {
        match self {
            Self::Verified(verified) => verified.inner(),
            Self::Refused { artifact, .. } => artifact,
        }
    }

    pub(super) fn new(artifact: Artifact, evidence: Evidence) -> Self {
        match evidence.refusal() {
            Some(_) => Self::Refused { artifact, evidence },
            None => Self::Verified(Verified::new(artifact, evidence)),
        }
    }
}

/// Everything that was checked about one artifact, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The artifact's content.
    pub artifact: Digest,
    /// The operation's meaning: op.toml and the reference; absent for a project without op.toml.
    pub op: Option<Digest>,
    /// [`PROTOCOL`] at the time.
    pub protocol: u32,
    /// In the order in which they were made; of several refusals, the one that came first is first.
    pub checks: Vec<CheckResult>,
    /// The machine and the software.
    pub environment: Environment,
    /// Seconds since 1970, UTC.
    pub when: u64,
}

impl Evidence {
    /// The refusal to tell first, if there is one.
    pub fn refusal(&self) -> Option<&CheckResult> {
        self.checks.iter().find(|check| check.outcome == Outcome::Refused)
    }

    /// The checks that could not be made here.
    pub fn skipped(&self) -> impl Iterator<Item = &CheckResult> {
        self.checks.iter().filter(|check| check.outcome == Outcome::Skipped)
    }
}

/// One check of one artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckResult {
    /// For people: `numerics`, `guard bands`.
    pub name: String,
    /// The diagnostic code of a refusal by this check: `verify::numerics`.
    pub code: String,
    /// How it ended.
    pub outcome: Outcome,
    /// One sentence fragment that says what was found.
    pub summary: String,
    /// The same for programs; the fields depend on the check.
    pub facts: serde_json::Value,
}

impl CheckResult {
    pub(super) fn new(
        name: &str,
        code: &str,
        outcome: Outcome,
        summary: impl Into<String>,
        facts: serde_json::Value,
    ) -> Self {
        Self { name: name.to_owned(), code: code.to_owned(), outcome, summary: summary.into(), facts }
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing wrong was found.
    Passed,
    /// The artifact may not be measured or published.
    Refused,
    /// It could not be made here; the summary says why.
    Skipped,
    /// Something that a person should know.
    Warned,
}

/// Where the checks ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// `torch.__version__`; absent when nothing was run.
    pub torch: Option<String>,
    /// The version of Python.
    pub python: Option<String>,
    /// `cpu`, or the GPU's name.
    pub device: Option<String>,
    /// The version of the GPU's driver; absent without a GPU, and in older evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// As /proc/cpuinfo has it.
    pub cpu: Option<String>,
    /// Whether the package could write to hardly any file while it ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confined: bool,
}

/// The digest of what an operation means: op.toml and the file of its reference.
///
/// # Errors
/// When the reference cannot be read.
pub fn op_digest(op: &OpSpec, project: &Path) -> Result<Digest, VerifyError> {
    Ok(ReferenceFile::read(op, project)?.op_digest(op))
}

/// The verified artifact, from evidence of an earlier run: the same content, the same meaning, the same protocol, and
/// nothing that was skipped then for want of a GPU that is here now.
pub fn recall(artifact: &Artifact, evidence: &Path, op: Option<Digest>) -> Option<Verified<Artifact>> {
    let text = files::read_text(evidence).ok()?;
    let evidence: Evidence = serde_json::from_str(&text).ok()?;
    let same = evidence.artifact == artifact.digest && evidence.op == op && evidence.protocol == PROTOCOL;
    let lacks_gpu = evidence.skipped().any(|check| check.code == NO_GPU);
    let stale = lacks_gpu && gpu_present();
    tracing::debug!(
        target: "cache",
        "verdict of {}: {}",
        artifact.variant,
        match (same, stale, evidence.refusal()) {
            (false, ..) => "miss, of another artifact, op.toml or protocol",
            (_, true, _) => "miss, it lacks a GPU that is here now",
            (_, _, Some(_)) => "miss, a refusal is judged again",
            _ => "hit",
        }
    );
    (same && !stale && evidence.refusal().is_none()).then(|| Verified::new(artifact.clone(), evidence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact() -> Artifact {
        Artifact {
            variant: "torch-stable-abi211-cpu-x86_64-linux".to_owned(),
            backend: "cpu".to_owned(),
            dir: "artifact".into(),
            id: "_rms_norm_cpu_0".to_owned(),
            library: None,
            capabilities: vec![],
            digest: Digest::blake3(b"artifact"),
            commit: None,
            tools: Default::default(),
            outside: vec![],
        }
    }

    fn evidence(outcome: Outcome) -> Evidence {
        let facts = serde_json::json!({ "largest": 0.5 });
        Evidence {
            artifact: artifact().digest,
            op: Some(Digest::blake3(b"op")),
            protocol: PROTOCOL,
            checks: vec![CheckResult::new("numerics", "verify::numerics", outcome, "found", facts)],
            environment: Environment { torch: Some("2.11.0".to_owned()), ..Environment::default() },
            when: 1,
        }
    }

    #[test]
    fn survives_the_disk() {
        let before = evidence(Outcome::Warned);
        let text = serde_json::to_string(&before).unwrap();
        assert_eq!(serde_json::from_str::<Evidence>(&text).unwrap(), before);
    }

    #[test]
    fn is_recalled_for_the_same_content_only() {
        let folder = files::scratch().unwrap();
        let path = folder.path().join("verdict.json");
        let store = |evidence: &Evidence| files::write(&path, serde_json::to_vec(evidence).unwrap()).unwrap();
        let op = Some(Digest::blake3(b"op"));
        store(&evidence(Outcome::Passed));
        assert!(recall(&artifact(), &path, op).is_some());
        assert!(recall(&artifact(), &path, None).is_none());
        assert!(recall(&Artifact { digest: Digest::blake3(b"other"), ..artifact() }, &path, op).is_none());
        store(&evidence(Outcome::Refused));
        assert!(recall(&artifact(), &path, op).is_none());
        store(&Evidence { protocol: PROTOCOL + 1, ..evidence(Outcome::Passed) });
        assert!(recall(&artifact(), &path, op).is_none());
    }
}
