//! Judges what was built, and keeps the evidence in the project.
//!
//! Owns: when an earlier verdict answers, how refusals are told. Never: judges itself; `verify` does.

pub(crate) mod device;
pub(crate) mod torches;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::archive::Earlier;
use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{env, files};
use crate::compile::artifact::Artifact;
use crate::exit::{self, Failure};
use crate::package::{self, Status};
use crate::pipeline::build::Refusal;
use crate::pipeline::project::Project;
use crate::toolchain::{Extras, PythonRuntime};
use crate::verify::{self, Evidence, Options, Outcome, Verdict, Verified};

use torches::{Group, TorchAccess};

/// How the judge works.
#[derive(Debug, Clone)]
pub(crate) struct Judging {
    /// Judges again what was judged before.
    pub(crate) fresh: bool,
    /// Repeats an earlier run with its seed; a new secret seed if `None`.
    pub(crate) seed: Option<u64>,
    /// The time limit for all calls of a kernel together.
    pub(crate) deadline: Duration,
    /// Refuses a build that needs a newer system than manylinux_2_28.
    pub(crate) require_portable: bool,
    /// Refuses device code that reads a clock.
    pub(crate) strict: bool,
    /// Also runs CUDA kernels under compute-sanitizer.
    pub(crate) sanitize: bool,
    /// Processors that a kernel and the reference may use; all if `None`.
    pub(crate) threads: Option<usize>,
}

impl Judging {
    /// What `--fresh` says of figures that an interrupted run left.
    pub(crate) fn earlier(&self) -> Earlier {
        if self.fresh { Earlier::Forget } else { Earlier::Resume }
    }

    /// Whether the verdict of an earlier run is no answer: it was asked for anew, or for something that was not looked at.
    pub(crate) fn judges_again(&self) -> bool {
        self.fresh || self.seed.is_some() || self.sanitize || self.strict
    }

    /// As without any option, but for portability: what needs a newer system is refused.
    pub(crate) fn for_publication() -> Self {
        Self {
            fresh: false,
            seed: None,
            deadline: Duration::from_secs(180),
            require_portable: true,
            strict: false,
            sanitize: false,
            threads: None,
        }
    }

    fn options(&self) -> Options {
        Options {
            seed: self.seed,
            require_portable: self.require_portable,
            sanitize: self.sanitize,
            strict: self.strict,
            deadline: self.deadline,
            threads: self.threads.unwrap_or_else(env::processors),
            ..Options::standard()
        }
    }
}

/// What the judge's Python needs beside torch.
pub(crate) fn extras(project: &Project) -> Extras {
    Extras { client: false, tvm_ffi: project.build.tvm_ffi().is_some() }
}

/// The verdict on one variant.
#[derive(Debug)]
pub(crate) struct VariantVerdict {
    /// The variant's name.
    pub(crate) variant: String,
    /// What the judge says.
    pub(crate) verdict: Verdict,
}

impl VariantVerdict {
    /// Where its results were checked.
    pub(crate) fn status(&self) -> Status {
        Status::new(
            &self.variant,
            &self.verdict.artifact().backend,
            package::Judgement::from_evidence(self.verdict.evidence()),
        )
    }
}

/// Where the evidence on a variant lies in a project.
pub(crate) fn evidence_path(project: &Path, variant: &str) -> PathBuf {
    project.join(".kernelwright/verdicts").join(format!("{variant}.json"))
}

/// Judges every group with its Python; the verdicts in the order of the variants' names.
pub(crate) fn all(
    project: &Project,
    groups: Vec<Group>,
    how: &Judging,
    session: &Session,
) -> Result<Vec<VariantVerdict>, Failure> {
    let mut judged = Vec::new();
    for (python, artifacts) in groups {
        judged.extend(verify(project, artifacts, how, &python, session)?);
    }
    judged.sort_by(|a, b| a.variant.cmp(&b.variant));
    Ok(judged)
}

/// Judges builds with the torch of their project, and those that it is not for with others that lie in the cache.
///
/// Gives the builds that the judge accepts, and the Python with the project's torch.
///
/// # Errors
/// A build is refused, or the judge itself fails.
pub(crate) fn accepted(
    project: &Project,
    artifacts: Vec<Artifact>,
    extras: Extras,
    how: &Judging,
    session: &Session,
) -> Result<(Vec<Verified<Artifact>>, PythonRuntime), Failure> {
    let python = torches::first(project, &artifacts, extras, session)?;
    let groups = torches::groups(artifacts, &python, TorchAccess::Kept, extras, session)?;
    let verified = accept(all(project, groups, how, session)?, project)?;
    Ok((verified, python))
}

/// Judges every artifact, or recalls the verdict on the same build.
pub(crate) fn verify(
    project: &Project,
    artifacts: Vec<Artifact>,
    how: &Judging,
    python: &PythonRuntime,
    session: &Session,
) -> Result<Vec<VariantVerdict>, Failure> {
    let meaning = project.op.as_ref().map(|op| verify::op_digest(op, &project.dir)).transpose()?;
    let options = how.options();
    let mut judged = Vec::new();
    for artifact in artifacts {
        let variant = artifact.variant.clone();
        let path = evidence_path(&project.dir, &variant);
        let started = Instant::now();
        let earlier = if how.judges_again() { None } else { verify::recall(&artifact, &path, meaning) };
        // What another torch left open is judged now, where this is the right one.
        let earlier = earlier.filter(|earlier| {
            let open = earlier.evidence().skipped().any(|check| check.code == verify::OTHER_TORCH);
            !(open && verify::suits(&variant, &python.torch))
        });
        let cached = earlier.is_some();
        let verdict = match earlier {
            Some(verified) => Verdict::Verified(verified),
            None => {
                verify::judge(artifact, project.op.as_ref(), &project.dir, Some(python), &options, session)?
            }
        };
        if !cached {
            let text = serde_json::to_string_pretty(verdict.evidence()).unwrap_or_default();
            files::write(&path, text)?;
        }
        let one = VariantVerdict { variant, verdict };
        let status = one.status();
        session.report.emit(&Event::Done {
            action: if matches!(one.verdict, Verdict::Verified(_)) { status.action() } else { "refused" },
            subject: &one.variant,
            detail: &format!("{}{}", line(one.verdict.evidence()), status.note()),
            seconds: started.elapsed().as_secs_f64(),
            cached,
        });
        judged.push(one);
    }
    Ok(judged)
}

/// The verified artifacts, or the reason of every refusal.
pub(crate) fn accept(
    judged: Vec<VariantVerdict>,
    project: &Project,
) -> Result<Vec<Verified<Artifact>>, Failure> {
    let mut verified = Vec::new();
    let mut reports = Vec::new();
    for VariantVerdict { variant, verdict } in judged {
        match verdict {
            Verdict::Verified(artifact) => verified.push(artifact),
            Verdict::Refused { evidence, .. } => {
                let refused = evidence.checks.iter().filter(|check| check.outcome == Outcome::Refused);
                let log = evidence_path(&project.dir, &variant);
                reports.extend(refused.map(|check| miette::Report::new(Refusal::new(&variant, check, &log))));
            }
        }
    }
    if reports.is_empty() { Ok(verified) } else { Err(Failure { exit: exit::VERIFY, reports }) }
}

/// How many checks ended how: `9 checks passed, 1 skipped`.
pub(crate) fn line(evidence: &Evidence) -> String {
    let count = |outcome| evidence.checks.iter().filter(|check| check.outcome == outcome).count();
    let mut parts = vec![format!("{} checks passed", count(Outcome::Passed))];
    for (outcome, word) in
        [(Outcome::Refused, "refused"), (Outcome::Warned, "warned"), (Outcome::Skipped, "skipped")]
    {
        if count(outcome) > 0 {
            parts.push(format!("{} {word}", count(outcome)));
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_answers_only_who_asked_for_no_other() {
        let usual = Judging::for_publication();
        assert!(!usual.judges_again());
        assert!(
            !Judging { deadline: Duration::from_secs(5), threads: Some(1), ..usual.clone() }.judges_again()
        );
        assert!(Judging { seed: Some(0), ..usual.clone() }.judges_again());
        assert!(Judging { fresh: true, ..usual.clone() }.judges_again());
        assert!(Judging { sanitize: true, ..usual }.judges_again());
    }
}
