//! The verdict of an earlier run on the same device code.
//!
//! Owns: when it counts: the same code, meaning and protocol, made for the same architectures by the same compiler, tried on
//! such a GPU as is here, and not refused. Never: judges.

use std::path::Path;

use super::super::evidence::{Evidence, PROTOCOL};
use super::super::{NO_GPU, NO_PYTHON, VerifyError, gpu_present, op_digest};
use super::{CompilationEvidence, DeviceCandidate, device};
use crate::base::digest::Digest;
use crate::base::files;
use crate::compile::nvrtc::Compiler;
use crate::device::gpu::Gpu;

/// The evidence in a file, where nothing would be found out by judging again.
///
/// # Errors
/// A file of the candidate's cannot be read; the worker that says which GPU is here cannot be started.
pub(crate) fn recall(
    candidate: &DeviceCandidate<'_>,
    compiler: &Compiler,
    has_torch: bool,
    evidence: &Path,
) -> Result<Option<Evidence>, VerifyError> {
    let Some(evidence) = read(evidence) else { return Ok(None) };
    let digests = (candidate.digest()?, op_digest(candidate.op, candidate.project)?);
    if !is_of(&evidence, digests, &CompilationEvidence::by(candidate, compiler)) {
        return Ok(None);
    }
    let skipped = |code| evidence.skipped().any(|check| check.code == code);
    let counts = match &evidence.environment.device {
        // The one that it was tried on answers in a second; a judgement takes ten.
        Some(name) => gpu_present() && device(&mut Gpu::new())?.is_ok_and(|about| about.name == *name),
        // What was left open then can be found out now.
        None => !(skipped(NO_GPU) && gpu_present() || skipped(NO_PYTHON) && has_torch),
    };
    Ok(counts.then_some(evidence))
}

fn read(path: &Path) -> Option<Evidence> {
    serde_json::from_str(&files::read_text(path).ok()?).ok()
}

/// Whether evidence says that code of these digests, so made, is not refused.
fn is_of(evidence: &Evidence, (artifact, op): (Digest, Digest), made: &CompilationEvidence) -> bool {
    let compile = evidence.checks.iter().find(|check| check.name == "compile");
    (evidence.artifact, evidence.op, evidence.protocol) == (artifact, Some(op), PROTOCOL)
        && compile.is_some_and(|check| CompilationEvidence::from_facts(&check.facts).as_ref() == Some(made))
        && evidence.refusal().is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::evidence::{CheckResult, Environment, Outcome};
    use super::*;

    fn made() -> CompilationEvidence {
        CompilationEvidence {
            compiler: "nvrtc 0123456789ab".to_owned(),
            archs: vec!["80".to_owned(), "90a".to_owned()],
        }
    }

    fn digests() -> (Digest, Digest) {
        (Digest::blake3(b"code"), Digest::blake3(b"meaning"))
    }

    fn evidence(last: Outcome) -> Evidence {
        let facts = json!({ "compiler": "nvrtc", "made": made() });
        let check =
            |name: &str, outcome, facts| CheckResult::new(name, "verify::numerics", outcome, "", facts);
        Evidence {
            artifact: digests().0,
            op: Some(digests().1),
            protocol: PROTOCOL,
            checks: vec![check("compile", Outcome::Warned, facts), check("numerics", last, json!({}))],
            environment: Environment::default(),
            when: 1,
        }
    }

    #[test]
    fn counts_for_the_same_code_made_alike_that_was_not_refused() {
        assert!(is_of(&evidence(Outcome::Passed), digests(), &made()));
        assert!(is_of(&evidence(Outcome::Skipped), digests(), &made()));
        assert!(!is_of(&evidence(Outcome::Refused), digests(), &made()));
        let other = Digest::blake3(b"other");
        assert!(!is_of(&evidence(Outcome::Passed), (other, digests().1), &made()));
        assert!(!is_of(&evidence(Outcome::Passed), (digests().0, other), &made()));
        let by_nvcc = CompilationEvidence { compiler: "nvcc 0123456789ab".to_owned(), ..made() };
        assert!(!is_of(&evidence(Outcome::Passed), digests(), &by_nvcc));
        let for_more = CompilationEvidence { archs: vec!["80".to_owned()], ..made() };
        assert!(!is_of(&evidence(Outcome::Passed), digests(), &for_more));
        let older = Evidence { protocol: PROTOCOL - 1, ..evidence(Outcome::Passed) };
        assert!(!is_of(&older, digests(), &made()));
    }

    #[test]
    fn evidence_from_before_it_said_how_code_was_made_does_not_count() {
        let mut before = evidence(Outcome::Passed);
        before.checks[0].facts = json!({ "compiler": "nvrtc" });
        assert!(!is_of(&before, digests(), &made()));
    }
}
