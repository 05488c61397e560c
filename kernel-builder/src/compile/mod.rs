//! Runs the planned commands in a bounded pool and assembles the importable package of each variant.
//!
//! Owns: the pool, the logs, the artifact folder, the meaning of a compiler's complaint.
//! Never: decides flags (the backends do), judges the result.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::{CommandLine, Unit, VariantPlan};
use miette::Diagnostic;
use thiserror::Error;

use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};
use crate::base::process::{self, Limits, ProcessError};
use crate::base::report::{Event, ProgressKind, Report};
use crate::base::session::Session;
use crate::exit::{self, StageError};
use crate::toolchain::portable::{self, PortableError};

pub mod artifact;
pub mod cache;
pub mod complaint;
mod naming;

use artifact::Artifact;
use cache::Cache;
use complaint::Complaint;

/// One command may take this long; a kernel with many large instantiations takes minutes, not an hour.
const DEADLINE: Duration = Duration::from_secs(3600);

/// Why a variant could not be built.
#[derive(Debug, Error, Diagnostic)]
pub enum CompileError {
    /// The compiler or linker said no.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Refused(#[from] Box<Complaint>),
    /// The library would not load on systems that kernels must load on.
    #[error("{variant} uses what systems of the manylinux_2_28 age do not have: {}", needs.join(", "))]
    #[diagnostic(
        code(compile::too_new),
        help(
            "replace these calls by ones that glibc 2.28 and libstdc++ of GCC 8 have; the kernel would not load elsewhere"
        )
    )]
    TooNew {
        /// The variant.
        variant: String,
        /// The names, with the version that has them.
        needs: Vec<String>,
    },
    /// The library could not be examined.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Portable(#[from] PortableError),
    /// A file could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// The compiler could not be started, or the user stopped.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(#[from] ProcessError),
}

impl StageError for CompileError {
    fn exit(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::TooNew { .. } | Self::Portable(_) | Self::File(_) => exit::COMPILE,
            Self::Process(error) => error.exit(),
        }
    }
}

/// A variant's plan with the tools that its commands name.
#[derive(Debug, Clone)]
pub struct Job {
    /// What to run.
    pub plan: VariantPlan,
    /// With what; its identities go into the cache keys.
    pub kit: Toolchain,
    /// The commit of the sources, for the artifact's description.
    pub commit: Option<String>,
}

/// What building one variant came to.
pub type Outcome = Result<Artifact, Vec<CompileError>>;

/// One task of the pool: a unit of a job.
struct Task<'a> {
    job: usize,
    unit: &'a Unit,
    key: Digest,
}

/// Builds every job: units of all variants share one pool of `session.jobs` processes, a variant is linked when its
/// last unit is done, and the failure of one variant does not stop the others.
pub fn build(jobs: &[Job], project: &Path, session: &Session) -> Vec<Outcome> {
    let cache = Cache::new(&session.cache.join("compile"));
    let mut failures: Vec<Vec<CompileError>> = jobs.iter().map(|_| Vec::new()).collect();
    let mut pending = Vec::new();
    for (job, Job { plan, kit, .. }) in jobs.iter().enumerate() {
        for unit in &plan.units {
            match unit_key(unit, kit, project) {
                Ok(key) => match reuse(&cache, &key, unit, project) {
                    Ok(true) => done(&session.report, "compiled", &plan.id, &unit.name, Duration::ZERO, true),
                    Ok(false) => pending.push(Task { job, unit, key }),
                    Err(error) => failures[job].push(error.into()),
                },
                Err(error) => failures[job].push(error.into()),
            }
        }
    }
    run_pool(&pending, jobs, project, &cache, session, &mut failures);
    jobs.iter()
        .zip(failures)
        .map(|(job, failed)| {
            if failed.is_empty() {
                finish(job, project, &cache, session).map_err(|error| vec![error])
            } else {
                Err(failed)
            }
        })
        .collect()
}

/// Whether nothing would have to be compiled or linked for these jobs: every unit is in the cache.
fn reuse(cache: &Cache, key: &Digest, unit: &Unit, project: &Path) -> Result<bool, FileError> {
    match cache.look_up(key, project) {
        Some(hit) => cache.restore(&hit.object, &project.join(&unit.object)),
        None => Ok(false),
    }
}

fn unit_key(unit: &Unit, kit: &Toolchain, project: &Path) -> Result<Digest, FileError> {
    let source = files::read(&project.join(&unit.name))?;
    let cuda = kit.cuda.as_ref().map_or("", |cuda| cuda.id.as_str());
    Ok(command_fields(DigestBuilder::new("compile-unit-1"), &unit.command)
        .field("cxx", &kit.cxx.id)
        .field("cuda", cuda)
        .field("torch", &kit.torch.id)
        .field("source", source)
        .finish())
}

fn command_fields(builder: DigestBuilder, command: &CommandLine) -> DigestBuilder {
    let builder = builder.field("program", command.program.display().to_string());
    let builder = command.args.iter().fold(builder, |builder, arg| builder.field("arg", arg));
    command.env.iter().fold(builder, |builder, (name, value)| builder.field(name, value))
}

fn run_pool(
    pending: &[Task<'_>],
    jobs: &[Job],
    project: &Path,
    cache: &Cache,
    session: &Session,
    failures: &mut [Vec<CompileError>],
) {
    if pending.is_empty() {
        return;
    }
    let bar = session.report.progress("compiling", ProgressKind::Count, Some(pending.len() as u64));
    let next = Mutex::new(pending.iter());
    let failed = Mutex::new(Vec::new());
    let take = || next.lock().ok()?.next();
    std::thread::scope(|scope| {
        for _ in 0..session.jobs.clamp(1, pending.len()) {
            scope.spawn(|| {
                while let Some(task) = take() {
                    let plan = &jobs[task.job].plan;
                    bar.doing(&task.unit.name);
                    match compile_unit(task, &plan.id, project, cache) {
                        Ok(took) => done(&session.report, "compiled", &plan.id, &task.unit.name, took, false),
                        Err(error) => {
                            if let Ok(mut failed) = failed.lock() {
                                failed.push((task.job, error));
                            }
                        }
                    }
                    bar.add(1);
                }
            });
        }
    });
    for (job, error) in failed.into_inner().unwrap_or_default() {
        failures[job].push(error);
    }
}

fn compile_unit(
    task: &Task<'_>,
    variant: &str,
    project: &Path,
    cache: &Cache,
) -> Result<Duration, CompileError> {
    let unit = task.unit;
    let log = run_logged(&unit.command, variant, &unit.name, &unit.object, project)?;
    let depfile = files::read_text(&project.join(&unit.depfile))?;
    let dependencies = cache::parse_depfile(&depfile);
    cache.store(&task.key, project, &project.join(&unit.object), &dependencies, &log.text)?;
    Ok(log.took)
}

struct Log {
    text: String,
    took: Duration,
}

/// Runs a compiler or linker in the project's folder, keeps its log, and reads its complaint when it fails.
///
/// The output is removed first: a command that dies half-way must not leave an old object in its place.
fn run_logged(
    command: &CommandLine,
    variant: &str,
    unit: &str,
    output: &str,
    project: &Path,
) -> Result<Log, CompileError> {
    let output = project.join(output);
    files::remove_file(&output)?;
    if let Some(folder) = output.parent() {
        files::create_dirs(folder)?;
    }
    let started = Instant::now();
    let finished = match process::run(&command.clone().cwd(project), Limits::wall(DEADLINE)) {
        Ok(finished) => finished,
        // Stopped by the user: what was written so far is no object either.
        Err(error) => {
            files::remove_file(&output)?;
            return Err(error.into());
        }
    };
    let text = format!("{}{}", finished.stdout_text(), finished.stderr_text());
    let log = project.join(format!(".kernelwright/logs/{variant}/{}.log", unit.replace('/', "__")));
    let shown = format!("{}\n{text}", shell_line(command));
    files::write(&log, shown)?;
    if finished.ending.success() {
        return Ok(Log { text, took: started.elapsed() });
    }
    files::remove_file(&output)?;
    Err(Box::new(complaint::read(unit, variant, &text, finished.ending, &log, project)).into())
}

/// The command as one line that a person can paste into a shell.
pub fn shell_line(command: &CommandLine) -> String {
    let mut words: Vec<String> =
        command.env.iter().map(|(name, value)| format!("{name}={}", quote(value))).collect();
    words.push(quote(&command.program.display().to_string()));
    words.extend(command.args.iter().map(|arg| quote(arg)));
    words.join(" ")
}

fn quote(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+,./:@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Links a variant whose units are all there, and assembles its package.
fn finish(job: &Job, project: &Path, cache: &Cache, session: &Session) -> Result<Artifact, CompileError> {
    let Job { plan, kit, .. } = job;
    let library = if plan.units.is_empty() {
        None
    } else {
        let place = format!(".kernelwright/objects/{}/{}", plan.id, plan.library);
        let mut key = command_fields(DigestBuilder::new("link-1"), &plan.link)
            .field("cxx", &kit.cxx.id)
            .field("torch", &kit.torch.id)
            .field("portable", kit.portable.as_ref().map_or("", |portable| portable.id.as_str()));
        for unit in &plan.units {
            name_object(unit, plan, project, cache)?;
            key = key.field("object", Digest::of(&files::read(&project.join(unit.linked()))?).to_string());
        }
        let key = key.finish();
        let hit = cache.look_up(&key, project);
        let restored = match hit {
            Some(hit) => cache.restore(&hit.object, &project.join(&place))?,
            None => false,
        };
        if !restored {
            let log = run_logged(&plan.link, &plan.id, "link", &place, project)?;
            refuse_newer(&project.join(&place), plan, kit)?;
            cache.store(&key, project, &project.join(&place), &[], &log.text)?;
            done(&session.report, "linked", &plan.id, &plan.library, log.took, false);
        }
        Some(project.join(place))
    };
    artifact::assemble(plan, project, library, job.commit.clone()).map_err(Into::into)
}

/// Refuses a library that asks for names which systems of the manylinux_2_28 age do not have. The linker cannot: torch's
/// names are undefined as well.
fn refuse_newer(library: &Path, plan: &VariantPlan, kit: &Toolchain) -> Result<(), CompileError> {
    let Some(portable) = &kit.portable else { return Ok(()) };
    let needs: Vec<String> = portable::beyond(library, portable)?.iter().map(ToString::to_string).collect();
    if needs.is_empty() { Ok(()) } else { Err(CompileError::TooNew { variant: plan.id.clone(), needs }) }
}

/// Puts the extension's name into the object of a unit that carries it. Where the compiler has taken the name apart, so
/// that it cannot be replaced, the unit is compiled with the real name instead.
fn name_object(unit: &Unit, plan: &VariantPlan, project: &Path, cache: &Cache) -> Result<(), CompileError> {
    let Some(named) = &unit.named else { return Ok(()) };
    let bytes = files::read(&project.join(&unit.object))?;
    if let Some(bytes) = naming::rename(&bytes, &plan.extension) {
        files::write_if_changed(&project.join(named), bytes)?;
        return Ok(());
    }
    let command = naming::with_real_name(&unit.command, &plan.extension, &unit.object, named);
    // The object that could not be renamed stands for the sources: the same one gives the same result.
    let key = command_fields(DigestBuilder::new("named-unit-1"), &command).field("object", bytes).finish();
    if let Some(hit) = cache.look_up(&key, project)
        && cache.restore(&hit.object, &project.join(named))?
    {
        return Ok(());
    }
    let log = run_logged(&command, &plan.id, &unit.name, named, project)?;
    cache.store(&key, project, &project.join(named), &[], &log.text)?;
    Ok(())
}

fn done(report: &Report, action: &str, variant: &str, subject: &str, took: Duration, cached: bool) {
    // A cached unit is no news for a person; the summary counts it.
    if cached && !report.is_json() {
        return;
    }
    report.emit(&Event::Done { action, subject, detail: variant, seconds: took.as_secs_f64(), cached });
}

/// The folder of a variant's package inside the project.
pub fn artifact_dir(project: &Path, variant: &str) -> PathBuf {
    project.join(".kernelwright/artifacts").join(variant)
}
