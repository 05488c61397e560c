//! Runs the planned commands in a bounded pool and assembles the importable package of each variant.
//!
//! Owns: the run as a whole, the logs, the artifact folder, the meaning of a compiler's complaint.
//! Never: decides flags (the backends do), judges the result.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc;

use crate::base::causes::chain;
use crate::base::files::{self, FileLock};
use crate::base::interrupt;
use crate::base::report::{BuildProgress, Report};
use crate::base::session::Session;

mod admission;
pub mod artifact;
mod build_report;
pub mod cache;
pub mod compiler_message;
mod content;
pub mod difference;
mod error;
mod files_read;
mod flags;
mod history;
mod job;
pub mod kind;
mod label;
mod leftovers;
mod link;
mod log;
mod matrix;
mod naming;
mod nvcc;
pub mod nvrtc;
mod ops;
mod outside;
mod prepare;
mod product;
mod progress;
mod share;
mod shell_line;
mod shop;
pub mod slots;
pub mod timeline;
mod unit;
mod unit_key;

use build_report::{End, Record, VariantEnd};
use cache::Cache;
use files_read::ReadFiles;
use history::History;
use matrix::Matrix;
use progress::ProgressBoard;
pub(crate) use shop::Shop;
use slots::Slots;

pub use artifact::artifact_dir;
pub use error::CompileError;
pub use job::{BuildPolicy, Job, OnFailure, Outcome};
pub use shell_line::shell_line;

/// Builds every job: units of all variants share one pool, bounded by `session.jobs` processes and by memory; a variant
/// is linked when its last unit is done. Another build of the same project is waited for.
pub fn build(jobs: &[Job], project: &Path, session: &Session, conduct: &BuildPolicy) -> Vec<Outcome> {
    let report = &session.report;
    let alone = alone_in(project, report);
    let cache = Cache::open(session);
    // The package's name is that of the project.
    let name = jobs.first().and_then(|job| job.plan.package.rsplit('/').next()).unwrap_or("none");
    let history = session.cache.join("state/compile").join(format!("{name}.json"));
    let slots = Slots::with_history(session.jobs, History::load(&history)).conducted(conduct.on_failure);
    let board = ProgressBoard::default();
    let (send, news) = mpsc::channel();
    slots.listen(Some(send));
    let read = ReadFiles::default();
    let shop = Shop { project, cache: &cache, slots: &slots, read: &read, report };
    let outcomes = std::thread::scope(|scope| {
        let (board, slots) = (&board, &slots);
        scope.spawn(move || progress::watch(board, slots, &news, report));
        // Who watches goes when nobody can tell anything any more.
        let _hush = ListenerGuard(slots);
        Matrix::new(&shop, jobs, board, conduct).run()
    });
    if let Err(error) = slots.remember() {
        report.warn(format!(
            "failed to save the time and memory of this build for the next one: {}",
            chain(&error)
        ));
    }
    cache.close(report);
    // Without the lock, another build of the project may still use them.
    if alone.is_some()
        && let Err(error) = leftovers::clear(project, jobs, &outcomes)
    {
        report.warn(format!("failed to remove files of earlier builds: {}", chain(&error)));
    }
    tell_shared(&slots, report);
    tell_outside(&outcomes, report);
    let variants = jobs
        .iter()
        .zip(&outcomes)
        .map(|(job, outcome)| VariantEnd { variant: job.plan.id.clone(), built: outcome.is_ok() });
    let end = match (interrupt::requested(), outcomes.iter().all(Result::is_ok)) {
        (true, _) => End::Interrupted,
        (_, true) => End::Complete,
        (_, false) => End::Failed,
    };
    if end == End::Interrupted {
        let BuildProgress { done, total, .. } = board.standing(slots.lanes(), 0.0);
        report.note(format!("{done} of {total} units are done and kept; run the same command to continue"));
    }
    let record = Record::new(name, end, slots.lanes(), variants.collect(), slots.timeline());
    if record.is_news() || conduct.report.is_some() {
        let written = record.write(&project.join(".kernelwright"), conduct.report.as_deref());
        if let Err(error) = written
            && !(end == End::Failed && error.is_about_room_or_rights())
        {
            report.warn(format!("failed to write the build report: {}", chain(&error)));
        }
    }
    outcomes
}

/// Keeps other builds out of the project's `.kernelwright`: what one compiler has half written, the other build would read,
/// and keep in the cache as an object.
fn alone_in(project: &Path, report: &Report) -> Option<FileLock> {
    let waiting = || report.note("waiting for another build of this project");
    match files::lock(&project.join(".kernelwright/build.lock"), waiting) {
        Ok(lock) => Some(lock),
        Err(_) if interrupt::requested() => None,
        // The first object that cannot be written says so.
        Err(error) if error.is_about_room_or_rights() => None,
        Err(error) => {
            report.warn(format!(
                "failed to lock the project, so run no other build of it at the same time: {}",
                chain(&error)
            ));
            None
        }
    }
}

/// Ends the watching.
struct ListenerGuard<'a>(&'a Slots);

impl Drop for ListenerGuard<'_> {
    fn drop(&mut self) {
        self.0.listen(None);
    }
}

/// Says once what was compiled for several variants.
fn tell_shared(slots: &Slots, report: &Report) {
    let shared = slots.timeline().shared();
    let times = |count: usize| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let describe = |(unit, compiled, served): &(String, usize, usize)| {
        format!("{unit} {} for {served} variants", times(*compiled))
    };
    if !shared.is_empty() {
        report.note(format!("compiled {}", shared.iter().map(describe).collect::<Vec<_>>().join(", ")));
    }
}

/// Says once which files outside of the project were compiled in.
fn tell_outside(outcomes: &[Outcome], report: &Report) {
    let built = outcomes.iter().flatten();
    let outside: BTreeSet<&str> =
        built.flat_map(|artifact| artifact.outside.iter().map(String::as_str)).collect();
    if !outside.is_empty() {
        let files = outside.into_iter().collect::<Vec<_>>().join(", ");
        report.warn(format!(
            "the build reads files outside of the project: {files}; it is not reproducible from the \
             project's source, so `package` will refuse it"
        ));
    }
}
