//! `verify`: builds what is not built, then judges it. A kernel that is wrong or cheats is refused by name.

pub(crate) mod device;
pub(crate) mod torches;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use kernel_plan::units::Version;
use miette::Diagnostic;
use serde_json::{Value, json};
use thiserror::Error;

use crate::archive::Earlier;
use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{env, files};
use crate::compile::artifact::Artifact;
use crate::compile::nvrtc::Tool;
use crate::exit::{self, Failure};
use crate::package::{self, Status};
use crate::pipeline::build;
use crate::pipeline::judge::torches::{self as judges, Group, Reach};
use crate::pipeline::project::selection::Selection;
use crate::pipeline::project::tuned::Choice;
use crate::pipeline::project::{self, Project, ProjectDir};
use crate::toolchain::python::{self, Torch};
use crate::toolchain::{Extras, PythonRuntime};
use crate::verify::{self, Evidence, Options, Outcome, Verdict, Verified};

/// Verify results against a float64 reference, and refuse cheats
///
/// Each kernel runs in processes of its own, on new random inputs, with guard bands, poisoned outputs, replay checks
/// and more. Binaries are read for architectures, registers, spills and portability. Checks that this machine cannot
/// run are listed.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright verify examples/rms-norm --backend cpu
  kernelwright verify my-norm --torch 2.15
  kernelwright verify --device my-norm/backward.toml")]
pub(crate) struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    how: How,
    /// Verify with this PyTorch the builds that support it; default: the installed one, or without one, as few
    /// releases as serve all builds
    #[arg(long, value_name = "MAJOR.MINOR")]
    torch: Option<Version>,
    /// Verify the device code that `[launch]` of op.toml starts; needs no build and no build.toml. DIR may also be a
    /// file such as backward.toml
    #[arg(long, conflicts_with_all = ["torch", "Selection"])]
    device: bool,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH", requires = "device")]
    compiler: Option<Tool>,
    /// Use the defaults of `[tune]` instead of the settings that `fill` found for this GPU
    #[arg(long, requires = "device")]
    untuned: bool,
    /// Also run CUDA kernels under compute-sanitizer, if it is installed: out-of-bounds accesses, races,
    /// uninitialized reads, and barriers that not all threads reach. Verifies again
    #[arg(long)]
    sanitize: bool,
}

/// How the judge works; shared with `make`.
#[derive(Debug, Clone, ClapArgs)]
#[group(id = "judging")]
pub(crate) struct How {
    /// Verify again, even if this build or this device code was verified before
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Repeat an earlier run with its seed, and verify again; default: a new secret seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Time limit in seconds for all calls of a kernel together
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deadline: u64,
    /// Fail if a build needs a newer system than manylinux_2_28
    #[arg(long)]
    pub(crate) require_portable: bool,
    /// Refuse device code that reads a clock, instead of warning; `fill` and `screen` always refuse it
    #[arg(long)]
    pub(crate) strict: bool,
    /// Also run CUDA kernels under compute-sanitizer; an option of `verify` alone, since it takes minutes.
    #[arg(skip)]
    pub(crate) sanitize: bool,
    /// Number of processors that a kernel and the reference may use during verification; default: all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
}

impl How {
    /// What `--fresh` says of figures that an interrupted run left.
    pub(crate) fn earlier(&self) -> Earlier {
        if self.fresh { Earlier::Forget } else { Earlier::Resume }
    }

    /// Whether the verdict of an earlier run is no answer: it was asked for anew, or for something that was not looked at.
    pub(crate) fn judges_again(&self) -> bool {
        self.fresh || self.seed.is_some() || self.sanitize || self.strict
    }

    /// As without any option, but for portability: what needs a newer system is refused.
    pub(crate) fn strict() -> Self {
        Self {
            fresh: false,
            seed: None,
            deadline: 180,
            require_portable: true,
            strict: false,
            sanitize: false,
            threads: None,
        }
    }
}

/// A refusal, as an error with the code of the check that refused.
#[derive(Debug, Error)]
#[error("{variant} is refused: {summary}")]
pub(crate) struct Refusal {
    /// The variant that was judged.
    pub(crate) variant: String,
    /// The check's code.
    pub(crate) code: String,
    /// What it found.
    pub(crate) summary: String,
    /// Where all that was found is kept.
    pub(crate) log: PathBuf,
}

impl Diagnostic for Refusal {
    fn code<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(Box::new(&self.code))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(Box::new(format!(
            "docs/formats.md says what the check does; all that was found is in {}",
            self.log.display()
        )))
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    if args.device {
        let how = How { sanitize: args.sanitize, ..args.how.clone() };
        let compiler = args.compiler.unwrap_or_default();
        let (project, evidence) =
            device::verify(&args.project.dir, &how, compiler, Choice::of(args.untuned), session)?;
        let title = project.title();
        let status = Status::new(&title, "cuda", package::Judged::of(&evidence));
        let row = row(&status, &evidence);
        session.report.result("verify", &json!({ "variants": [row] }), &table(&status, &evidence));
        return device::accept(&project, &evidence);
    }
    let project = project::load(&args.project.dir, session)?;
    if let Some(line) = args.torch {
        // One that cannot be had is told before anything is built.
        python::foreseen(session, Torch::Exactly(&line.to_string()))?;
    }
    let artifacts = build::build(&project, &args.selection, session)?;
    let extras = extras(&project);
    let groups = match args.torch {
        Some(line) => vec![judges::asked(line, artifacts, extras, session)?],
        None => {
            let first = judges::first(&project, &artifacts, extras, session)?;
            judges::groups(artifacts, &first, Reach::Fetched, extras, session)?
        }
    };
    // Evidence is recalled whichever torch it is from, so what is asked for is judged.
    let fresh = args.how.fresh || args.torch.is_some();
    let how = How { fresh, sanitize: args.sanitize, ..args.how.clone() };
    let judged = all(&project, groups, &how, session)?;
    let rows: Vec<_> = judged.iter().map(|judged| row(&judged.status(), judged.verdict.evidence())).collect();
    let human: String =
        judged.iter().map(|judged| table(&judged.status(), judged.verdict.evidence())).collect();
    session.report.result("verify", &json!({ "variants": rows }), &human);
    accept(judged, &project).map(drop)
}

/// What the judge's Python needs beside torch.
pub(crate) fn extras(project: &Project) -> Extras {
    Extras { client: false, tvm_ffi: project.build.tvm_ffi().is_some() }
}

/// The verdict on one variant.
#[derive(Debug)]
pub(crate) struct Judged {
    /// The variant's name.
    pub(crate) variant: String,
    /// What the judge says.
    pub(crate) verdict: Verdict,
}

impl Judged {
    /// Where its results were checked.
    fn status(&self) -> Status {
        Status::new(
            &self.variant,
            &self.verdict.artifact().backend,
            package::Judged::of(self.verdict.evidence()),
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
    how: &How,
    session: &Session,
) -> Result<Vec<Judged>, Failure> {
    let mut judged = Vec::new();
    for (python, artifacts) in groups {
        judged.extend(verify(project, artifacts, how, &python, session)?);
    }
    judged.sort_by(|a, b| a.variant.cmp(&b.variant));
    Ok(judged)
}

/// Judges every artifact, or recalls the verdict on the same build.
pub(crate) fn verify(
    project: &Project,
    artifacts: Vec<Artifact>,
    how: &How,
    python: &PythonRuntime,
    session: &Session,
) -> Result<Vec<Judged>, Failure> {
    let meaning = project.op.as_ref().map(|op| verify::op_digest(op, &project.dir)).transpose()?;
    let options = Options {
        seed: how.seed,
        require_portable: how.require_portable,
        sanitize: how.sanitize,
        strict: how.strict,
        deadline: Duration::from_secs(how.deadline),
        threads: how.threads.map_or_else(env::processors, usize::from),
        ..Options::standard()
    };
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
        let one = Judged { variant, verdict };
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
pub(crate) fn accept(judged: Vec<Judged>, project: &Project) -> Result<Vec<Verified<Artifact>>, Failure> {
    let mut verified = Vec::new();
    let mut reports = Vec::new();
    for Judged { variant, verdict } in judged {
        match verdict {
            Verdict::Verified(artifact) => verified.push(artifact),
            Verdict::Refused { evidence, .. } => {
                let refused = evidence.checks.iter().filter(|check| check.outcome == Outcome::Refused);
                reports.extend(refused.map(|check| {
                    miette::Report::new(Refusal {
                        variant: variant.clone(),
                        code: check.code.clone(),
                        summary: check.summary.clone(),
                        log: evidence_path(&project.dir, &variant),
                    })
                }));
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

/// One variant, for programs.
fn row(status: &Status, evidence: &Evidence) -> Value {
    let Status { variant, results, judged, .. } = status;
    json!({ "variant": variant, "results": results, "judged": judged, "evidence": evidence })
}

/// Every check of one variant, a line each.
fn table(status: &Status, evidence: &Evidence) -> String {
    let mut text = format!("{}: {}{}\n", status.variant, line(evidence), status.note());
    for check in &evidence.checks {
        let word = match check.outcome {
            Outcome::Passed => "passed",
            Outcome::Refused => "REFUSED",
            Outcome::Skipped => "skipped",
            Outcome::Warned => "warned",
        };
        text += &format!("  {word:<8} {:<20} {}\n", check.name, check.summary);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_answers_only_who_asked_for_no_other() {
        let usual = How::strict();
        assert!(!usual.judges_again());
        assert!(!How { deadline: 5, threads: Some(1), ..usual.clone() }.judges_again());
        assert!(How { seed: Some(0), ..usual.clone() }.judges_again());
        assert!(How { fresh: true, ..usual.clone() }.judges_again());
        assert!(How { sanitize: true, ..usual }.judges_again());
    }
}
