//! Runs the planned commands in a bounded pool and assembles the importable package of each variant.
//!
//! Owns: the pool, the logs, the artifact folder, the meaning of a compiler's complaint.
//! Never: decides flags (the backends do), judges the result.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::{Unit, VariantPlan};

use crate::base::digest::Digest;
use crate::base::report::{Event, ProgressKind, Report};
use crate::base::session::Session;

pub mod artifact;
pub mod cache;
pub mod complaint;
mod error;
mod link;
mod log;
mod naming;
mod ops;
mod prepare;
pub mod slots;
mod unit;

use artifact::Artifact;
use cache::Cache;
use slots::Slots;

pub use error::CompileError;
pub use log::shell_line;

/// A variant's plan with the tools that its commands name.
#[derive(Debug, Clone)]
pub struct Job {
    /// What to run.
    pub plan: VariantPlan,
    /// With what; its identities go into the cache keys. Absent where nothing is compiled.
    pub kit: Option<Toolchain>,
    /// The commit of the sources, for the artifact's description.
    pub commit: Option<String>,
}

/// What building one variant came to.
pub type Outcome = Result<Artifact, Vec<CompileError>>;

/// What every part of this stage works with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shop<'a> {
    /// The project's folder; commands run there.
    pub(crate) project: &'a Path,
    /// What earlier runs made.
    pub(crate) cache: &'a Cache,
    /// The pool.
    pub(crate) slots: &'a Slots,
    /// Whom to tell.
    pub(crate) report: &'a Report,
}

/// One task of the pool: a unit of a job.
struct Task<'a> {
    job: usize,
    unit: &'a Unit,
    key: Digest,
}

/// Threads that wait for slots; more would only wait.
const WAITING: usize = 64;

/// Builds every job: units of all variants share one pool of `session.jobs` processes, a variant is linked when its
/// last unit is done, and the failure of one variant does not stop the others.
pub fn build(jobs: &[Job], project: &Path, session: &Session) -> Vec<Outcome> {
    let cache = Cache::new(&session.cache.join("compile"));
    let slots = Slots::new(session.jobs);
    let shop = Shop { project, cache: &cache, slots: &slots, report: &session.report };
    let mut failures = prepare::prepare(&shop, jobs);
    let mut pending = Vec::new();
    for (job, Job { plan, kit, .. }) in jobs.iter().enumerate() {
        let Some(kit) = kit else { continue };
        if !failures[job].is_empty() {
            continue;
        }
        for unit in &plan.units {
            match unit::unit_key(unit, kit, project) {
                Ok(key) => match unit::reuse(&shop, &key, unit) {
                    Ok(true) => done(shop.report, "compiled", &plan.id, &unit.name, Duration::ZERO, true),
                    Ok(false) => pending.push(Task { job, unit, key }),
                    Err(error) => failures[job].push(error.into()),
                },
                Err(error) => failures[job].push(error.into()),
            }
        }
    }
    compile_all(&shop, &pending, jobs, &mut failures);
    jobs.iter()
        .zip(failures)
        .map(|(job, failed)| {
            if failed.is_empty() {
                link::finish(&shop, job).map_err(|error| vec![error])
            } else {
                Err(failed)
            }
        })
        .collect()
}

fn compile_all(shop: &Shop<'_>, pending: &[Task<'_>], jobs: &[Job], failures: &mut [Vec<CompileError>]) {
    if pending.is_empty() {
        return;
    }
    let bar = shop.report.progress("compiling", ProgressKind::Count, Some(pending.len() as u64));
    let next = Mutex::new(pending.iter());
    let failed = Mutex::new(Vec::new());
    let take = || next.lock().ok()?.next();
    std::thread::scope(|scope| {
        for _ in 0..WAITING.min(pending.len()) {
            scope.spawn(|| {
                while let Some(task) = take() {
                    let Job { plan, .. } = &jobs[task.job];
                    bar.doing(&task.unit.name);
                    match unit::compile(shop, &plan.id, task.unit, &task.key) {
                        Ok(took) => done(shop.report, "compiled", &plan.id, &task.unit.name, took, false),
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
