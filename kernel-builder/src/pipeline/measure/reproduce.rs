//! Measures again what a record says.
//!
//! Owns: when sources are those of a record, and what a repetition that does not agree is. Never: compares figures;
//! `bench::reproduce` does.

use std::path::PathBuf;

use kernel_plan::spec::OpSpec;
use kernel_plan::variant::Variant;
use miette::Diagnostic;
use thiserror::Error;

use crate::archive::{self, Earlier};
use crate::base::digest::Digest;
use crate::base::session::Session;
use crate::bench::{self, Measurement, Options, Outcome, reproduce};
use crate::compile::artifact::Artifact;
use crate::compile::nvrtc::Tool;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::build;
use crate::pipeline::judge::device::candidate;
use crate::pipeline::judge::{self, Judging};
use crate::pipeline::project::device::{self, NAME};
use crate::pipeline::project::selection::Selection;
use crate::pipeline::project::tuned::{self, Choice};
use crate::pipeline::project::{self, OpFile, Project};
use crate::toolchain::PythonRuntime;
use crate::verify::Verified;

use super::device::verify_and_measure;

/// Why a record was not reproduced.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum ReproduceError {
    /// The record is of another operation.
    #[error("the record is for operation `{recorded}`, but op.toml defines `{here}`")]
    #[diagnostic(code(bench::other_operation), help("name the project that the record is from"))]
    OtherOperation {
        /// The record's.
        recorded: String,
        /// The project's.
        here: String,
    },
    /// The candidate is another.
    #[error("the sources differ from those of the record: {difference}")]
    #[diagnostic(
        code(bench::other_source),
        help("check out the commit of the record{at}, or compare anyway with --any-source")
    )]
    OtherSource {
        /// Which digests.
        difference: String,
        /// ` (COMMIT)`, where the record has one.
        at: String,
    },
    /// What the record was measured on is not here.
    #[error("the record is for {recorded}, which cannot be measured here: {problem}")]
    #[diagnostic(
        code(bench::no_device),
        help("run this on a machine that has it; `kernelwright doctor` shows what this machine has")
    )]
    NoDevice {
        /// The record's device.
        recorded: String,
        /// Why not.
        problem: String,
    },
    /// Nothing differs, and not everything could be compared.
    #[error(
        "{unknown} of {all} records could not be compared: none of their ratios is a result in both runs"
    )]
    #[diagnostic(
        code(bench::not_compared),
        help("the table says why; rerun on an idle machine that can time the same baselines")
    )]
    NotCompared {
        /// How many.
        unknown: usize,
        /// Of how many.
        all: usize,
    },
    /// Figures differ.
    #[error("{disagreeing} of {all} records disagree with the new measurement")]
    #[diagnostic(
        code(bench::disagrees),
        help("the table shows which; the lines below it say how the machines differ")
    )]
    Disagrees {
        /// How many.
        disagreeing: usize,
        /// Of how many.
        all: usize,
    },
}

impl StageError for ReproduceError {
    fn exit(&self) -> u8 {
        exit::BENCH
    }
}

/// What a record is held against.
#[derive(Debug)]
pub(crate) struct Request {
    /// A file of records, `-`, or a digest of the project's archive.
    pub(crate) record: String,
    /// The project, or an op file.
    pub(crate) dir: PathBuf,
    /// Whether other sources than those of the record are measured, too.
    pub(crate) any_source: bool,
    /// How builds are made.
    pub(crate) selection: Selection,
    /// How they are judged.
    pub(crate) judging: Judging,
}

/// Measures again what the records say; each beside what was measured now.
///
/// # Errors
/// A record is of other sources, another operation or another device; or the build, the judge or the measurement fails.
pub(crate) fn again(args: &Request, session: &Session) -> Result<Vec<reproduce::Comparison>, Failure> {
    let records = archive::find(&args.record, &OpFile::at(&args.dir).folder)?;
    let (of_device, of_builds): (Vec<&Measurement>, Vec<&Measurement>) =
        records.iter().partition(|record| record.variant == NAME);
    let mut comparisons = Vec::new();
    if !of_device.is_empty() {
        comparisons.extend(device_again(args, &of_device, session)?);
    }
    if !of_builds.is_empty() {
        let project = project::load(&args.dir, session)?;
        same_operation(project.op_for("measure")?, &of_builds)?;
        let mut variants: Vec<String> = of_builds.iter().map(|record| record.variant.clone()).collect();
        variants.sort();
        variants.dedup();
        for variant in variants {
            let mine: Vec<&Measurement> =
                of_builds.iter().copied().filter(|record| record.variant == variant).collect();
            comparisons.extend(build_again(args, &project, &variant, &mine, session)?);
        }
    }
    Ok(comparisons)
}

/// Fails unless everything was compared and agrees.
///
/// # Errors
/// [`ReproduceError::Disagrees`] or [`ReproduceError::NotCompared`].
pub(crate) fn verdict(comparisons: &[reproduce::Comparison]) -> Result<(), ReproduceError> {
    let all = comparisons.len();
    let disagreeing = comparisons.iter().filter(|comparison| comparison.agrees() == Some(false)).count();
    if disagreeing > 0 {
        return Err(ReproduceError::Disagrees { disagreeing, all });
    }
    let unknown = comparisons.iter().filter(|comparison| comparison.agrees().is_none()).count();
    if unknown > 0 {
        return Err(ReproduceError::NotCompared { unknown, all });
    }
    Ok(())
}

/// Builds, verifies and measures one variant, and compares with its records.
fn build_again(
    args: &Request,
    project: &Project,
    variant: &str,
    records: &[&Measurement],
    session: &Session,
) -> Result<Vec<reproduce::Comparison>, Failure> {
    refuse_other_source(args, project, variant, records)?;
    // A lock file that is there stays as it is: it is part of what the records are of.
    let locked =
        args.selection.locked || project.files.iter().any(|path| path.as_str() == "kernelwright.lock");
    let selection = Selection { variants: vec![variant.to_owned()], locked, ..args.selection.clone() };
    let artifacts = build::build(project, &selection, session)?;
    for artifact in &artifacts {
        refuse_other_claim(args, project, artifact, records)?;
    }
    let extras = judge::extras(project);
    let (verified, python) = judge::accepted(project, artifacts, extras, &args.judging, session)?;
    let mut found = Vec::new();
    for artifact in &verified {
        found.extend(measured(project, artifact, records, &python, session)?);
    }
    archive::record(&project.dir, &found)?;
    compared(records, &found)
}

/// Verifies and measures device code, and compares with its records.
fn device_again(
    args: &Request,
    records: &[&Measurement],
    session: &Session,
) -> Result<Vec<reproduce::Comparison>, Failure> {
    let other = |here: &Digest| records.iter().find(|record| record.artifact != *here);
    let mut choice = Choice::Tuned;
    let project = tuned::read_project(&args.dir, choice, session)?;
    same_operation(&project.op, records)?;
    let mut here = candidate(&project).digest()?;
    if other(&here).is_some() {
        // Records of the defaults, from before anything was tuned or by `--untuned`.
        let untuned = candidate(&device::read(&args.dir, session)?).digest()?;
        if other(&untuned).is_none() {
            (choice, here) = (Choice::Defaults, untuned);
        }
    }
    if let (Some(record), false) = (other(&here), args.any_source) {
        let difference = format!(
            "the digest of the device code, its headers and op.toml is {here}, in the record it is {} (records from \
             before 2026-11-23 do not include headers)",
            record.artifact
        );
        let at = record.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
        return Err(ReproduceError::OtherSource { difference, at }.into());
    }
    let tool = tool_of(records);
    let project = tuned::read_project(&args.dir, choice, session)?;
    let options = options_of(records);
    let found = verify_and_measure(&project, &args.judging, &options, tool, Earlier::Forget, session)?;
    compared(records, &found.measured)
}

/// The compiler that made the machine code of records.
fn tool_of(records: &[&Measurement]) -> Tool {
    let by_nvcc = |record: &&Measurement| {
        record.candidate.as_ref().and_then(|made| made.compiler.as_deref()) == Some(Tool::Nvcc.name())
    };
    if records.iter().any(by_nvcc) { Tool::Nvcc } else { Tool::Nvrtc }
}

fn same_operation(op: &OpSpec, records: &[&Measurement]) -> Result<(), ReproduceError> {
    let here = op.name.value.to_string();
    match records.iter().find(|record| record.op != here) {
        Some(other) => Err(ReproduceError::OtherOperation { recorded: other.op.clone(), here }),
        None => Ok(()),
    }
}

/// The workloads, the budget and the starts of records. A record of one start does not say how starts differ, so the new
/// measurement must.
fn options_of(records: &[&Measurement]) -> Options {
    let mut workloads: Vec<String> = records.iter().map(|record| record.workload.clone()).collect();
    workloads.dedup();
    let budget = records.iter().filter_map(|record| record.budget).reduce(f64::max).unwrap_or(2.0);
    let starts = records.iter().map(|record| record.starts()).max().unwrap_or(1).max(bench::ENOUGH_STARTS);
    Options { budget, workloads, starts: Some(starts), ..Options::default() }
}

/// Each record beside what was measured of its case.
fn compared(records: &[&Measurement], found: &[Measurement]) -> Result<Vec<reproduce::Comparison>, Failure> {
    let compared = records.iter().map(|record| {
        let now = found.iter().find(|now| reproduce::is_same_case(record, now));
        let missing = || ReproduceError::NoDevice {
            recorded: format!("{} {} {} on {}", record.workload, record.dtype, record.regime, record.device),
            problem: "no new measurement corresponds to it".to_owned(),
        };
        Ok(reproduce::compare(record, now.ok_or_else(missing)?))
    });
    compared.collect()
}

/// Refuses sources other than those of the records, before anything is built.
fn refuse_other_source(
    args: &Request,
    project: &Project,
    variant: &str,
    records: &[&Measurement],
) -> Result<(), Failure> {
    // Of a variant for every backend, and of one that is no variant, the build says more.
    let Some(backend) = variant.parse::<Variant>().ok().and_then(|variant| variant.backend()) else {
        return Ok(());
    };
    let here = super::source_digest(project, backend.as_str())?;
    let source = |record: &Measurement| record.candidate.as_ref()?.source;
    let other =
        records.iter().find_map(|record| Some((record, source(record).filter(|source| *source != here)?)));
    match other.filter(|_| !args.any_source) {
        Some((record, recorded)) => {
            let difference = format!("source {} instead of {}", here.short(12), recorded.short(12));
            let at = record.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
            Err(ReproduceError::OtherSource { difference, at }.into())
        }
        None => Ok(()),
    }
}

/// A record is of its sources; others are another claim. Told before anything is timed.
fn refuse_other_claim(
    args: &Request,
    project: &Project,
    artifact: &Artifact,
    records: &[&Measurement],
) -> Result<(), Failure> {
    let about = super::about(project, artifact)?;
    for record in records {
        let here = Measurement {
            artifact: artifact.digest,
            candidate: about.candidate.clone(),
            ..(*record).clone()
        };
        if let (Some(difference), false) = (reproduce::other_claim(record, &here), args.any_source) {
            let at = record.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
            return Err(ReproduceError::OtherSource { difference, at }.into());
        }
    }
    Ok(())
}

fn measured(
    project: &Project,
    artifact: &Verified<Artifact>,
    records: &[&Measurement],
    python: &PythonRuntime,
    session: &Session,
) -> Result<Vec<Measurement>, Failure> {
    let op = project.op_for("measure")?;
    let mut about = super::about(project, artifact.inner())?;
    if artifact.inner().backend == "cuda" && bench::multiplies(op) {
        super::ceilings::ceilings_here(session)?.iter().for_each(|ceilings| about.set_ceilings(ceilings));
    }
    let options = Options {
        threads: records
            .first()
            .filter(|record| record.regime == "host")
            .map(|record| record.cpu.threads as usize),
        commit: artifact.inner().commit.clone(),
        about,
        ..options_of(records)
    };
    match bench::measure(artifact, op, &project.dir, python, &options, &mut bench::KeepNothing, session)? {
        Outcome::Measured(found) => Ok(found),
        Outcome::Skipped(reason) => {
            let recorded = records.first().map(|record| record.device.clone()).unwrap_or_default();
            Err(ReproduceError::NoDevice { recorded, problem: reason.to_string() }.into())
        }
    }
}
