//! Device candidates: kernels that `[launch]` of op.toml starts, without host code, so without a build either.
//!
//! Owns: reading op.toml alone, and what a device candidate is judged with. Never: judges.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::build::{Framework, Kernel};
use kernel_plan::spec::launch::Launch;
use kernel_plan::spec::op::{Case, Device, Purpose};
use miette::Diagnostic;
use thiserror::Error;

use crate::agent::tuned::{self as tuned_table, Chosen, Settings};
use crate::archive::{Earlier, Unfinished};
use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{disk, env, files};
use crate::bench::{self, Measurement};
use crate::compile::artifact::Artifact;
use crate::compile::nvrtc::{Compiler, Kit, NvrtcError, Source, Tool};
use crate::exit::{self, Failure, StageError};
use crate::package::{Judged, Status};
use crate::pipeline::judge::{How, Refusal, evidence_path, line};
use crate::pipeline::measure::ceilings as gpu;
use crate::pipeline::measure::{Figures, kind, settled};
use crate::pipeline::project::tuned::{self, Choice};
use crate::pipeline::project::{self, OpFile, TORCH};
use crate::toolchain::python::{self, Torch};
use crate::toolchain::{Extras, PythonRuntime, nvcc, nvrtc};
use crate::verify::device::{self, DeviceCandidate};
use crate::verify::{Evidence, Options};

/// The architectures that code is compiled for where build.toml names none.
const ARCHS: [&str; 4] = ["80", "90a", "100", "120"];
/// The name of a device candidate beside those of variants.
pub(crate) const NAME: &str = "device";

/// op.toml has no `[launch]`.
#[derive(Debug, Error, Diagnostic)]
#[error("`{}` has no [launch], so nothing says how its device code is started", op.display())]
#[diagnostic(
    code(spec::no_launch),
    help(
        "docs/formats.md has the keys; what build.toml builds is judged by `verify` and `bench` without `--device`"
    )
)]
struct NoLaunch {
    op: PathBuf,
}

/// The source of device code is a link out of the project.
#[derive(Debug, Error, Diagnostic)]
#[error("`{name}` is a link to `{}`, which is outside of the project", real.display())]
#[diagnostic(
    code(verify::source_outside),
    help("copy the file into the project: device code reads nothing but the project and the toolkit")
)]
struct SourceOutside {
    name: String,
    real: PathBuf,
}

impl StageError for SourceOutside {
    fn exit(&self) -> u8 {
        exit::SPEC
    }
}

impl StageError for NoLaunch {
    fn exit(&self) -> u8 {
        exit::SPEC
    }
}

impl StageError for NvrtcError {
    fn exit(&self) -> u8 {
        match self {
            Self::File(error) => error.exit(),
            Self::Process(error) => error.exit(),
            error if error.is_of_machine() => exit::TOOLCHAIN,
            _ => exit::COMPILE,
        }
    }
}

/// A folder with an op.toml that says how device code is started.
pub(crate) struct DeviceProject {
    /// Its folder, absolute.
    pub(crate) dir: PathBuf,
    /// Whether `op` is another file than the op.toml of the folder: what is kept of it has its operation's name.
    pub(crate) is_beside: bool,
    /// op.toml, or the file beside it.
    pub(crate) op: OpSpec,
    /// The code.
    pub(crate) source: Source,
    /// What it is compiled for.
    pub(crate) archs: Vec<String>,
    /// The tunables of every call.
    pub(crate) settings: Settings,
}

/// Reads a folder or an op file, without what it is compiled for: sources that build.toml lists may be missing.
pub(crate) fn read_code(dir: &Path, session: &Session) -> Result<DeviceProject, Failure> {
    let file = OpFile::of(dir);
    let op = file.read("judge device code", session)?;
    let Some(launch) = &op.launch else { return Err(NoLaunch { op: file.path() }.into()) };
    let folder = env::absolute(&file.folder);
    let source = source(&folder, launch)?;
    let settings = Settings::defaults(&op);
    Ok(DeviceProject { dir: folder, is_beside: file.is_beside(), op, source, archs: vec![], settings })
}

/// Reads a folder or an op file; a build.toml is needed for nothing but the architectures.
pub(crate) fn read(dir: &Path, session: &Session) -> Result<DeviceProject, Failure> {
    let project = read_code(dir, session)?;
    Ok(DeviceProject { archs: archs(&project.dir, session)?, ..project })
}

impl DeviceProject {
    /// What its evidence is kept and told as. Device code of a file beside op.toml has its operation's name, too.
    pub(crate) fn title(&self) -> String {
        if self.is_beside { format!("{NAME}-{}", self.op.name.value) } else { NAME.to_owned() }
    }
}

/// Reads a folder or an op file, and which settings its calls have on the GPU that is here.
pub(crate) fn read_with(dir: &Path, choice: Choice, session: &Session) -> Result<DeviceProject, Failure> {
    let project = read(dir, session)?;
    let settings = tuned::settings(&project, choice, session)?;
    Ok(DeviceProject { settings, ..project })
}

fn source(folder: &Path, launch: &Launch) -> Result<Source, Failure> {
    let path = folder.join(launch.source.value.as_str());
    let name = launch.source.value.to_string();
    // A link may lead out of the project, and what the compiler says quotes the source.
    let real = disk::real(&path);
    if files::exists(&path) && !real.starts_with(disk::real(folder)) {
        return Err(SourceOutside { name, real }.into());
    }
    let text = files::read_text(&path)?;
    let beside = path.parent().map(Path::to_owned);
    Ok(Source { text, name, include: beside.into_iter().collect(), root: Some(folder.to_owned()) })
}

/// The capabilities that build.toml lists for its CUDA kernels; the usual ones where it lists none, or is not there.
fn archs(folder: &Path, session: &Session) -> Result<Vec<String>, Failure> {
    let mut listed: Vec<String> = vec![];
    if files::exists(&folder.join("build.toml")) {
        let build = project::load(folder, session)?.build;
        let of_kernels = build.kernels.iter().flat_map(|kernel: &Kernel| &kernel.cuda_capabilities);
        let noarch = match &build.framework {
            Framework::TorchNoarch(noarch) => noarch.cuda_capabilities.as_slice(),
            _ => &[],
        };
        listed.extend(of_kernels.chain(noarch).map(|capability| capability.value.digits()));
    }
    listed.sort();
    listed.dedup();
    Ok(if listed.is_empty() { ARCHS.map(str::to_owned).to_vec() } else { listed })
}

/// The Python whose torch runs the reference; nothing where there is none, which is said.
pub(crate) fn oracle(session: &Session) -> Option<PythonRuntime> {
    match python::runtime(session, Torch::Preferably(TORCH), Extras::default()) {
        Ok(python) => Some(python),
        Err(error) => {
            session.report.warn(format!("no Python with torch, so results are not compared: {error}"));
            None
        }
    }
}

/// The compiler of device code.
pub(crate) fn compiler(tool: Tool, session: &Session) -> Result<Compiler, Failure> {
    let kit = match tool {
        Tool::Nvrtc => Kit::Nvrtc(nvrtc::obtain(session)?),
        Tool::Nvcc => Kit::Nvcc(nvcc::obtain(session)?),
    };
    Ok(Compiler::new(kit, &session.cache)?)
}

/// Judges device code, then measures it and keeps the records in the project. What takes long and disturbs no judge is
/// begun before the verdict; where that is a refusal, it is ended.
///
/// # Errors
/// The code is refused, or the judge or the measurement fails.
pub(crate) fn verify_and_measure(
    project: &DeviceProject,
    how: &How,
    options: &bench::Options,
    tool: Tool,
    earlier: Earlier,
    session: &Session,
) -> Result<Figures, Failure> {
    // Before minutes of judging, and not after.
    bench::refuse_unknown(&project.op, &options.workloads)?;
    let compiler = compiler(tool, session)?;
    let Some(python) = oracle(session) else {
        accept(project, &judged(project, how, &compiler, None, session)?)?;
        // Why there is none is an error now.
        python::runtime(session, Torch::Preferably(TORCH), Extras::default())?;
        return Ok(Figures::default());
    };
    let candidate = candidate(project);
    // What its records name: device code has no package and no folder of its own.
    let artifact = Artifact {
        variant: NAME.to_owned(),
        backend: "cuda".to_owned(),
        dir: project.dir.clone(),
        id: String::new(),
        library: None,
        capabilities: project.archs.clone(),
        digest: candidate.digest()?,
        commit: project::provenance(&project.dir).commit,
        tools: BTreeMap::new(),
        outside: vec![],
    };
    let mut options = bench::Options { commit: artifact.commit.clone(), ..options.clone() };
    if bench::multiplies(&project.op) {
        gpu::ceilings_here(session)?.iter().for_each(|ceilings| options.about.set_ceilings(ceilings));
        if options.about.matrix_peak.is_empty() {
            session.report.note("`kernelwright gpu` measures what this GPU can do in products of matrices");
        }
    }
    let measured =
        bench::OfDevice { artifact: &artifact, candidate: &candidate, python: &python, options: &options };
    std::thread::scope(|scope| {
        let begun = measured.begin(scope, session)?;
        accept(project, &judged(project, how, &compiler, Some(&python), session)?)?;
        measure(project, &measured, &compiler, begun, earlier, session)
    })
}

fn measure(
    project: &DeviceProject,
    measured: &bench::OfDevice<'_>,
    compiler: &Compiler,
    begun: bench::Begun<'_>,
    earlier: Earlier,
    session: &Session,
) -> Result<Figures, Failure> {
    let mut figures = Figures::default();
    let kind = kind(&measured.artifact.digest, &project.op, &project.dir, measured.options)?;
    let mut kept = Unfinished::begin(&project.dir, &kind, earlier)?;
    let outcome = measured.measure(compiler, begun, &mut kept, session);
    match settled(outcome, &mut kept, session)? {
        bench::Outcome::Measured(mut found) => {
            for measurement in &mut found {
                name_setting(measurement, project);
            }
            kept.finish(&found)?;
            figures.measured = found;
        }
        bench::Outcome::Skipped(reason) => {
            let text = format!("{} was not measured: {reason}", project.title());
            session.report.note(&text);
            figures.told.push(text);
        }
    }
    Ok(figures)
}

/// Writes into a measurement which tunables its calls had.
fn name_setting(measurement: &mut Measurement, project: &DeviceProject) {
    let cases = project.op.cases(Purpose::Bench, Device::Cuda);
    let is_of = |case: &&Case| {
        let dtypes = tuned_table::dtypes_of(case);
        let named = match dtypes.values().collect::<Vec<_>>().as_slice() {
            [one] => **one == measurement.dtype,
            several => {
                let pairs = dtypes.iter().map(|(name, dtype)| format!("{name}={dtype}"));
                several.is_empty() || pairs.collect::<Vec<_>>().join(",") == measurement.dtype
            }
        };
        named
            && case.workload.as_str() == measurement.workload
            && tuned_table::axes_of(&project.op, case) == measurement.axes
    };
    if let (Some(case), Some(made)) = (cases.iter().find(is_of), &mut measurement.candidate) {
        let Chosen { tuning, from } = project.settings.of(&project.op, case);
        let pairs = tuning.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        made.setting = Some(bench::Setting { tuning: pairs.collect(), from });
    }
}

pub(crate) fn candidate(project: &DeviceProject) -> DeviceCandidate<'_> {
    DeviceCandidate {
        op: &project.op,
        project: &project.dir,
        source: project.source.clone(),
        settings: project.settings.clone(),
        archs: project.archs.clone(),
    }
}

/// Judges the device code of a folder with the settings of its calls; the evidence is kept in the project.
pub(crate) fn verify(
    dir: &Path,
    how: &How,
    tool: Tool,
    choice: Choice,
    session: &Session,
) -> Result<(DeviceProject, Evidence), Failure> {
    let project = read_with(dir, choice, session)?;
    let compiler = compiler(tool, session)?;
    let evidence = judged(&project, how, &compiler, oracle(session).as_ref(), session)?;
    Ok((project, evidence))
}

fn judged(
    project: &DeviceProject,
    how: &How,
    compiler: &Compiler,
    python: Option<&PythonRuntime>,
    session: &Session,
) -> Result<Evidence, Failure> {
    let started = Instant::now();
    let candidate = candidate(project);
    let title = project.title();
    let path = evidence_path(&project.dir, &title);
    let earlier = match how.judges_again() {
        true => None,
        false => device::recall(&candidate, compiler, python.is_some(), &path)?,
    };
    let cached = earlier.is_some();
    let evidence = match earlier {
        Some(evidence) => evidence,
        None => {
            let options = Options {
                seed: how.seed,
                deadline: Duration::from_secs(how.deadline),
                sanitize: how.sanitize,
                strict: how.strict,
                threads: how.threads.map_or_else(env::processors, usize::from),
                ..Options::standard()
            };
            let evidence = device::judge(&candidate, compiler, python, &options, session)?;
            files::write(&path, serde_json::to_string_pretty(&evidence).unwrap_or_default())?;
            evidence
        }
    };
    let status = Status::new(&title, "cuda", Judged::of(&evidence));
    session.report.emit(&Event::Done {
        action: if evidence.refusal().is_none() { status.action() } else { "refused" },
        subject: &title,
        detail: &format!("{}{}", line(&evidence), status.note()),
        seconds: started.elapsed().as_secs_f64(),
        cached,
    });
    Ok(evidence)
}

/// The failure that a refusal is, if there is one.
pub(crate) fn accept(project: &DeviceProject, evidence: &Evidence) -> Result<(), Failure> {
    let refused = evidence.checks.iter().filter(|check| check.outcome == crate::verify::Outcome::Refused);
    let reports: Vec<miette::Report> = refused
        .map(|check| {
            miette::Report::new(Refusal {
                variant: project.title(),
                code: check.code.clone(),
                summary: check.summary.clone(),
                log: evidence_path(&project.dir, &project.title()),
            })
        })
        .collect();
    if reports.is_empty() { Ok(()) } else { Err(Failure { exit: exit::VERIFY, reports }) }
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;
    use kernel_plan::spec;
    use kernel_plan::spec::expr::Value;
    use kernel_plan::spec::tune::Tuning;

    use super::*;
    use crate::agent::tuned::{Setting, Tuned};

    const RECORDS: &str = include_str!("../../../../bench/results/2026-11-22-h200-rms-norm-device.jsonl");
    const OP: &str = include_str!("../../../../examples/rms-norm-device/op.toml");

    #[test]
    fn a_record_says_which_setting_it_is_of() {
        let op = spec::parse_op(SourceFile::new("op.toml", OP)).0.unwrap();
        let mut table = Tuned::empty(&op, "NVIDIA H200", (9, 0), 132, crate::base::digest::Digest::of(b"x"));
        let tuning = Tuning::from([("block".parse().unwrap(), Value::Integer(512))]);
        let tuning: Tuning = op.tune.default_tuning().into_iter().chain(tuning).collect();
        table.put(Setting {
            workload: "llm-128x4096".to_owned(),
            date: "2026-11-22".to_owned(),
            driver: "580".to_owned(),
            compiler: "nvrtc".to_owned(),
            protocol: 1,
            judged: 1,
            right: 1,
            seconds: 1e-6,
            default_seconds: None,
            copy_fraction: None,
            gain: None,
            dtypes: [("T".to_owned(), "f16".to_owned())].into(),
            axes: [("rows".to_owned(), 128), ("hidden".to_owned(), 4096)].into(),
            range: [].into(),
            tuning: tuned_table::written(&tuning),
        });
        let settings = Settings::of_table("tuned/nvidia-h200.toml", table, &op).unwrap();
        let source = Source { text: String::new(), name: String::new(), include: vec![], root: None };
        let project =
            DeviceProject { dir: PathBuf::new(), is_beside: false, op, source, archs: vec![], settings };
        let mut of = Vec::new();
        for line in RECORDS.lines() {
            let mut record: Measurement = serde_json::from_str(line).unwrap();
            assert_eq!(record.candidate.as_ref().unwrap().setting, None, "it is from before");
            name_setting(&mut record, &project);
            let setting = record.candidate.unwrap().setting.unwrap();
            of.push((format!("{} {}", record.workload, record.dtype), setting));
        }
        for (case, setting) in &of {
            let is_tuned = case == "llm-128x4096 f16";
            assert_eq!(setting.tuning["block"], if is_tuned { "512" } else { "256" }, "{case}");
            assert_eq!(
                setting.from == "tuned/nvidia-h200.toml, llm-128x4096",
                is_tuned,
                "{case}: {}",
                setting.from
            );
        }
        assert!(of.iter().any(|(case, _)| case == "llm-128x4096 f16") && of.len() > 3);
    }
}
