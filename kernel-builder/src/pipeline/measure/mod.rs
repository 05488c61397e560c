//! `bench`: measures verified builds against PyTorch, interleaved, with intervals.

pub(crate) mod about;
pub(crate) mod ceilings;
pub(crate) mod reproduce;
pub(crate) mod screen;
pub(crate) mod screening;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use kernel_plan::spec::OpSpec;
use serde_json::json;

use crate::archive::{self, Earlier, Unfinished};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files;
use crate::base::nvml::Driver;
use crate::base::session::Session;
use crate::bench::dispatch::Dispatch;
use crate::bench::{self, BenchError, Measurement, Options, report};
use crate::compile::artifact::Artifact;
use crate::compile::nvrtc::Tool;
use crate::exit::Failure;
use crate::pipeline::build;
use crate::pipeline::judge as verify;
use crate::pipeline::judge::device;
use crate::pipeline::judge::torches::{self as judges, Reach};
use crate::pipeline::project::selection::Selection;
use crate::pipeline::project::tuned::{Choice, no_settings};
use crate::pipeline::project::{self, Project, ProjectDir};
use crate::toolchain::PythonRuntime;
use crate::verify::{Outcome, Verified, lint};
use ceilings as gpu;

/// Measure verified variants against PyTorch, with 95% intervals
///
/// The rivals are eager PyTorch, its fused operator, torch.compile and, for matrix products, cuBLASLt. Each contender
/// runs in a process of its own, and the samples are interleaved. With several starts, the intervals also cover the
/// differences between starts. CPU figures are valid for this machine only.
///
/// Every measurement is appended to .kernelwright/records.jsonl in the project. An interrupted run continues where it
/// stopped, unless you pass `--fresh`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright bench examples/rms-norm --without compile-max
  kernelwright bench --device examples/rms-norm-device --workload llm-4096x4096")]
pub(crate) struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    judge: verify::How,
    #[command(flatten)]
    how: How,
    /// Also write the results as one HTML page, with plots and provenance
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Measure the device code that `[launch]` of op.toml starts; needs no build and no build.toml. DIR may also be a
    /// file such as backward.toml
    #[arg(long, conflicts_with_all = ["Selection", "write_dispatch"])]
    device: bool,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH", requires = "device")]
    compiler: Option<Tool>,
    /// Use the defaults of `[tune]` instead of the settings that `fill` found for this GPU
    #[arg(long, requires = "device")]
    untuned: bool,
    /// Write tuned/DEVICE.toml, which sends each range of lengths to the kernel or to PyTorch, whichever is faster
    #[arg(long)]
    write_dispatch: bool,
}

/// How long and against what; shared with `make`.
#[derive(Debug, Clone, ClapArgs)]
#[group(id = "measuring")]
pub(crate) struct How {
    /// Time limit in seconds for each workload and dtype, over all starts; sampling stops earlier once the interval
    /// is narrow
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub(crate) budget: f64,
    /// Number of times to start all timed processes, each time with the cases in a new order. The intervals then
    /// cover the differences between starts. Default: 3 on a GPU, 1 on a CPU
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=20))]
    pub(crate) starts: Option<u8>,
    /// Measure only this workload of op.toml; can be repeated
    #[arg(long = "workload", value_name = "NAME")]
    pub(crate) workloads: Vec<String>,
    /// Leave out a rival that takes long to compile or to search; can be repeated
    #[arg(long, value_name = "RIVAL", value_parser = bench::OPTIONAL_RIVALS)]
    pub(crate) without: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    if args.device {
        return of_device(args, session);
    }
    let project = project::load(&args.project.dir, session)?;
    bench::refuse_unknown(project.op_for("measure")?, &args.how.workloads)?;
    let artifacts = build::build(&project, &args.selection, session)?;
    let extras = verify::extras(&project);
    let python = judges::first(&project, &artifacts, extras, session)?;
    let groups = judges::groups(artifacts, &python, Reach::Kept, extras, session)?;
    let verdicts = verify::all(&project, groups, &args.judge, session)?;
    let verified = verify::accept(verdicts, &project)?;
    let Figures { measured, told } =
        measure(&project, &verified, &args.how, args.judge.earlier(), &python, session)?;
    let mut written = Vec::new();
    if let Some(path) = &args.html {
        files::write(path, report::page(&measured, &told))?;
        written.push(path.clone());
    }
    if args.write_dispatch {
        for artifact in &verified {
            written.extend(write_dispatch(&project, artifact.inner(), &measured)?);
        }
    }
    let mut human = bench::render::table(&measured);
    for path in &written {
        human += &format!("written to {}\n", path.display());
    }
    let data = json!({ "measurements": measured, "told": told, "written": written });
    session.report.result("bench", &data, &human);
    Ok(bench::refuse_unmeasured(&measured)?)
}

/// Judges and measures device code.
fn of_device(args: &Args, session: &Session) -> Result<(), Failure> {
    let tool = args.compiler.unwrap_or_default();
    let project = device::read_with(&args.project.dir, Choice::of(args.untuned), session)?;
    let options = Options {
        budget: args.how.budget,
        starts: args.how.starts.map(usize::from),
        workloads: args.how.workloads.clone(),
        without: args.how.without.clone(),
        ..Options::default()
    };
    let earlier = args.judge.earlier();
    let Figures { measured, told } =
        device::verify_and_measure(&project, &args.judge, &options, tool, earlier, session)?;
    let mut written = Vec::new();
    if let Some(path) = &args.html {
        files::write(path, report::page(&measured, &told))?;
        written.push(path.clone());
    }
    let mut human = bench::render::table(&measured);
    for path in &written {
        human += &format!("written to {}\n", path.display());
    }
    let data = json!({ "measurements": measured, "told": told, "written": written });
    session.report.result("bench", &data, &human);
    Ok(bench::refuse_unmeasured(&measured)?)
}

/// Writes the dispatch table of a variant, of all that the archive knows of it on the device of this run.
fn write_dispatch(
    project: &Project,
    artifact: &Artifact,
    measured: &[Measurement],
) -> Result<Option<PathBuf>, Failure> {
    let here = measured.iter().find(|measurement| measurement.artifact == artifact.digest);
    let Some(device) = here.map(|measurement| measurement.device.clone()) else { return Ok(None) };
    let known = archive::latest_named(&project.dir, &artifact.digest);
    let named: Vec<_> =
        known.iter().filter(|(_, it)| it.device == device).map(|(name, it)| (*name, it)).collect();
    let Some(table) = Dispatch::of(&named, &artifact.backend) else { return Ok(None) };
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
    how: &How,
    earlier: Earlier,
    python: &PythonRuntime,
    session: &Session,
) -> Result<Figures, Failure> {
    let op = project.op_for("measure")?;
    let mut figures = Figures::default();
    for artifact in verified {
        let variant = &artifact.inner().variant;
        let warned = artifact.evidence().checks.iter().filter(|check| check.outcome == Outcome::Warned);
        figures.told.extend(warned.map(|check| format!("{variant}: {}: {}", check.name, check.summary)));
        let mut about = about::of(project, artifact.inner())?;
        if artifact.inner().backend == "cuda" && bench::multiplies(op) {
            gpu::ceilings_here(session)?.iter().for_each(|ceilings| about.set_ceilings(ceilings));
        }
        let options = Options {
            budget: how.budget,
            starts: how.starts.map(usize::from),
            workloads: how.workloads.clone(),
            without: how.without.clone(),
            commit: artifact.inner().commit.clone(),
            about,
            ..Options::default()
        };
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
        session
            .report
            .warn(format!("figures of a doubtful task (`kernelwright lint`): {}", found.join(", ")));
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
                "{} are kept; the next `bench` of the same build goes on after them",
                bench::render::counted(count as u64, "measurement")
            ));
        }
        Err(error.into())
    })
}
