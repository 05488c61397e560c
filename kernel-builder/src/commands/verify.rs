//! `verify`: builds what is not built, then judges it. A kernel that is wrong or cheats is refused by name.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::files;
use crate::base::report::Event;
use crate::base::session::Session;
use crate::compile::artifact::Artifact;
use crate::exit::{self, Failure};
use crate::toolchain::{Extras, PythonRuntime, python};
use crate::verify::{self, Evidence, Options, Outcome, Refused, Verdict, Verified};

use super::build::{self, Selection};
use super::project::{self, Project, ProjectDir};

/// Judge every variant against the fp64 reference, and against cheats
///
/// Numerics, guard bands, poisoned outputs, replay and more run in processes of their own with fresh random inputs;
/// binaries are read for architectures, registers, spills and portability. What cannot be checked here is said.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    how: How,
}

/// How the judge works; shared with `make`.
#[derive(Debug, Clone, ClapArgs)]
#[group(id = "judging")]
pub struct How {
    /// Judge again even when this build was verified before
    #[arg(long)]
    pub fresh: bool,
    /// Repeat an earlier run with its seed; default: a new secret one
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Refuse a build that needs a newer system than manylinux_2_28
    #[arg(long)]
    pub require_portable: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let artifacts = build::build(&project, &args.selection, session)?;
    let python = runtime(&project, session)?;
    let verdicts = verify(&project, artifacts, &args.how, python.as_ref(), session)?;
    let evidence: Vec<&Evidence> = verdicts.iter().map(Verdict::evidence).collect();
    let human =
        evidence.iter().map(|evidence| verify::render::table(evidence)).collect::<Vec<_>>().join("\n");
    session.report.result("verify", &json!({ "variants": evidence }), &human);
    accept(verdicts, session).map(drop)
}

/// The Python that judges; `None` when the project has no op.toml and so nothing is run but the load check.
pub fn runtime(project: &Project, session: &Session) -> Result<Option<PythonRuntime>, Failure> {
    let torch = project::torch_of(project)?;
    Ok(Some(python::runtime(session, &torch, Extras { client: false })?))
}

/// Where the evidence on a variant lies in a project.
pub fn evidence_path(project: &Path, variant: &str) -> PathBuf {
    project.join(".kernelwright/verdicts").join(format!("{variant}.json"))
}

/// Judges every artifact, or recalls the verdict on the same build.
pub fn verify(
    project: &Project,
    artifacts: Vec<Artifact>,
    how: &How,
    python: Option<&PythonRuntime>,
    session: &Session,
) -> Result<Vec<Verdict>, Failure> {
    let op_digest = project.op_digest()?;
    let mut verdicts = Vec::new();
    for artifact in artifacts {
        let path = evidence_path(&project.dir, &artifact.variant);
        if !how.fresh
            && let Some(verified) = verify::recall(artifact.clone(), &path, op_digest)
        {
            session.report.emit(&Event::Done {
                action: "verified",
                subject: &artifact.variant,
                detail: &verify::render::line(verified.evidence()),
                seconds: 0.0,
                cached: true,
            });
            verdicts.push(Verdict::Verified(verified));
            continue;
        }
        let started = std::time::Instant::now();
        let options = Options {
            seed: how.seed,
            require_portable: how.require_portable,
            op_digest,
            ..Options::default()
        };
        let verdict = verify::judge(artifact, project.op.as_ref(), &project.dir, python, &options, session)?;
        let evidence = verdict.evidence();
        files::write(&path, serde_json::to_string_pretty(evidence).unwrap_or_default())?;
        session.report.emit(&Event::Done {
            action: if matches!(verdict, Verdict::Verified(_)) { "verified" } else { "refused" },
            subject: &evidence.variant,
            detail: &verify::render::line(evidence),
            seconds: started.elapsed().as_secs_f64(),
            cached: false,
        });
        for check in evidence.checks.iter().filter(|check| check.outcome == Outcome::Warned) {
            session.report.warn(format!("{}: {}", check.code, check.summary));
        }
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

/// The verified artifacts, or the reasons of every refusal.
pub fn accept(verdicts: Vec<Verdict>, _session: &Session) -> Result<Vec<Verified<Artifact>>, Failure> {
    let mut verified = Vec::new();
    let mut reports = Vec::new();
    for verdict in verdicts {
        match verdict {
            Verdict::Verified(artifact) => verified.push(artifact),
            Verdict::Refused { evidence, .. } => {
                reports.extend(Refused::all(&evidence).into_iter().map(miette::Report::new));
            }
        }
    }
    if reports.is_empty() { Ok(verified) } else { Err(Failure { exit: exit::VERIFY, reports }) }
}
