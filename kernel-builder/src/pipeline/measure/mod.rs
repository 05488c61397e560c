//! Measures builds that the judge accepts, and keeps the records in the project.
//!
//! Owns: what a record says of a candidate beside its times (sources, flags, machine code), when an interrupted run goes on.
//! Never: times; `bench` does.

pub(crate) mod ceilings;
pub(crate) mod device;
pub(crate) mod e2e;
pub(crate) mod listed;
pub(crate) mod reproduce;
pub(crate) mod screen;
pub(crate) mod screening;
pub(crate) mod turn;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::build::Kernel;

use crate::archive::{self, Earlier, Unfinished};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files;
use crate::base::nvml::Driver;
use crate::base::session::Session;
use crate::bench::dispatch::Dispatch;
use crate::bench::{self, BenchError, Candidate, Measurement, Options, RunContext};
use crate::compile::artifact::Artifact;
use crate::exit::Failure;
use crate::pipeline::project::Project;
use crate::pipeline::project::tuned::no_settings;
use crate::toolchain::PythonRuntime;
use crate::verify::{Outcome, Verified, lint};

/// Writes the dispatch table of a variant, of all that the archive knows of it on the device of this run.
pub(crate) fn write_dispatch(
    project: &Project,
    artifact: &Artifact,
    measured: &[Measurement],
) -> Result<Option<PathBuf>, Failure> {
    let here = measured.iter().find(|measurement| measurement.artifact == artifact.digest);
    let Some(device) = here.map(|measurement| measurement.device.clone()) else { return Ok(None) };
    let known = archive::latest_named(&project.dir, &artifact.digest);
    let named: Vec<_> =
        known.iter().filter(|(_, it)| it.device == device).map(|(name, it)| (*name, it)).collect();
    let Some(table) = Dispatch::from_measurements(&named, &artifact.backend) else { return Ok(None) };
    let path = project.dir.join("tuned").join(table.file_name());
    no_settings(&path)?;
    files::write(&path, table.text())?;
    Ok(Some(path))
}

/// What came of measuring several variants.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// The measurements.
    pub(crate) measured: Vec<Measurement>,
    /// What was not measured and why, and what the judge warned of.
    pub(crate) told: Vec<String>,
}

/// Measures each verified variant that this machine can run, and keeps the records.
pub(crate) fn measure(
    project: &Project,
    verified: &[Verified<Artifact>],
    options: &Options,
    earlier: Earlier,
    python: &PythonRuntime,
    session: &Session,
) -> Result<Figures, Failure> {
    let op = project.op_for("measure")?;
    let mut figures = Figures::default();
    let on_gpu = verified.iter().any(|artifact| artifact.inner().backend == "cuda");
    let _turn = if on_gpu { turn::here(session)? } else { None };
    for artifact in verified {
        let variant = &artifact.inner().variant;
        let warned = artifact.evidence().checks.iter().filter(|check| check.outcome == Outcome::Warned);
        figures.told.extend(warned.map(|check| format!("{variant}: {}: {}", check.name, check.summary)));
        let mut about = about(project, artifact.inner())?;
        if artifact.inner().backend == "cuda" && bench::multiplies(op) {
            ceilings::ceilings_here(session)?.iter().for_each(|ceilings| about.set_ceilings(ceilings));
        }
        let options = Options { commit: artifact.inner().commit.clone(), about, ..options.clone() };
        let kind = kind(&artifact.inner().digest, op, &project.dir, &options)?;
        let mut kept = Unfinished::begin(&project.dir, &kind, earlier)?;
        let outcome = bench::measure(artifact, op, &project.dir, python, &options, &mut kept, session);
        match settled(outcome, &mut kept, session)? {
            bench::Outcome::Measured(mut found) => {
                for measurement in &mut found {
                    measurement.lint = lint::noted(artifact.evidence(), &measurement.workload);
                }
                kept.finish(&found)?;
                figures.measured.extend(found);
            }
            bench::Outcome::Skipped(reason) => {
                let text = format!("{variant} was not measured: {reason}");
                session.report.note(&text);
                figures.told.push(text);
            }
        }
    }
    let measured = figures.measured.iter();
    let found: BTreeSet<&String> = measured.filter_map(|one| one.lint.as_ref()).flatten().collect();
    if !found.is_empty() {
        let found: Vec<&str> = found.into_iter().map(String::as_str).collect();
        session.report.warn(format!(
            "the task has findings of `kernelwright lint`, so the figures may be misleading: {}",
            found.join(", ")
        ));
    }
    Ok(figures)
}

/// The digest of what decides the figures of a run beside the machine's programs, which records name: the candidate, the
/// task with its reference, how long is sampled, the driver.
pub(crate) fn kind(
    artifact: &Digest,
    op: &OpSpec,
    project: &Path,
    options: &Options,
) -> Result<Digest, Failure> {
    let reference = files::read(&project.join(op.reference.file.value.as_str()))?;
    let driver = Driver::open().and_then(|driver| driver.readings().into_iter().next()?.driver);
    Ok(DigestBuilder::new("bench")
        .field("protocol", bench::PROTOCOL.to_string())
        .field("artifact", artifact.to_string())
        .field("op.toml", &op.file.text)
        .field("reference", reference)
        .field("budget", options.budget.to_string())
        .field("starts", format!("{:?}", options.starts))
        .field("without", options.without.join(" "))
        .field("threads", format!("{:?}", options.threads))
        .field("driver", driver.unwrap_or_default())
        .finish())
}

/// What a run came to: figures of a kernel that was refused are forgotten, those of one that was interrupted are not.
pub(crate) fn settled(
    outcome: Result<bench::Outcome, BenchError>,
    kept: &mut Unfinished,
    session: &Session,
) -> Result<bench::Outcome, Failure> {
    outcome.or_else(|error| {
        if error.refuses() {
            kept.discard()?;
        } else if kept.count() > 0 {
            let count = kept.count();
            session.report.note(format!(
                "kept {}; the next `bench` of the same build continues from there",
                bench::render::counted(count as u64, "measurement")
            ));
        }
        Err(error.into())
    })
}

/// What is known of a built variant before it is measured.
pub(crate) fn about(project: &Project, artifact: &Artifact) -> Result<RunContext, Failure> {
    let flags = project
        .build
        .kernels
        .iter()
        .filter(|kernel| kernel.backend.value.to_string() == artifact.backend)
        .flat_map(Kernel::flags)
        .chain(project.build.framework.cxx_flags());
    let mut own: Vec<String> = Vec::new();
    for flag in flags {
        // Of several sections that say the same, one is told.
        if !own.contains(&flag.value) {
            own.push(flag.value.clone());
        }
    }
    let source = source_digest(project, &artifact.backend)?;
    let candidate = Candidate::of_artifact(artifact, Some(source), own);
    Ok(RunContext { candidate: Some(candidate), ..RunContext::default() })
}

/// The digest over what makes a claim about a backend: build.toml, op.toml with its reference, the sources of that
/// backend and of the binding, and the Python that is shipped. Tests, cards and benchmarks are no part of it.
pub(crate) fn source_digest(project: &Project, backend: &str) -> Result<Digest, Failure> {
    let kernels = project.build.kernels.iter().filter(|kernel| kernel.backend.value.to_string() == backend);
    let listed = kernels.flat_map(|kernel| &kernel.src).chain(project.build.framework.src());
    let mut names: Vec<String> = listed.map(|path| path.value.as_str().to_owned()).collect();
    names.extend(project.python_files().iter().map(|path| path.as_str().to_owned()));
    names.push("build.toml".to_owned());
    if let Some(op) = &project.op {
        names.extend(["op.toml".to_owned(), op.reference.file.value.as_str().to_owned()]);
    }
    names.sort();
    names.dedup();
    let mut builder = DigestBuilder::new("claim-1");
    for name in names {
        builder = builder.field(&name, files::read(&project.dir.join(&name))?);
    }
    Ok(builder.finish())
}
