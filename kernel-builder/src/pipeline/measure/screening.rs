//! Candidates of one workload on their way: compiled side by side, judged and timed one after the other.
//!
//! Owns: the processes that compile while the GPU works, and the message if there is no GPU. Never: judges or
//! times, which `bench::screen` does; chooses a candidate.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::launch::{ConcreteLaunch, Launch};
use kernel_plan::spec::op::{Case, Device, Purpose};
use kernel_plan::spec::tune::Tuning;
use miette::Diagnostic;
use thiserror::Error;

use crate::base::causes::chain;
use crate::base::interrupt;
use crate::bench::impossible::Bounds;
use crate::bench::screen::Screen;
use crate::compile::nvrtc::{Code, Compiler, NvrtcError, Source};
use crate::device::gpu::{Gpu, NoDevice};
use crate::exit::{self, Failure, StageError};
use crate::toolchain::PythonRuntime;
use crate::verify::VerifyError;
use crate::verify::checks;
use crate::verify::lab::{Attempt, CandidateRefusal, Groundwork, Lab, NoLab, ProcessorShare};
use crate::verify::state;

/// How often a wait looks for ctrl-C.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of the calls of a graph: every candidate fills and compares them several times.
const ROOM: u64 = 2 << 30;

/// Why screening stops.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum ScreeningError {
    #[error("there is no GPU to screen on")]
    #[diagnostic(
        code(bench::no_gpu),
        help(
            "run this command on a machine with an NVIDIA GPU and its driver; `kernelwright verify --device` compiles \
             the code and reports its resources without one"
        )
    )]
    NoGpu(#[source] NoDevice),
    #[error("the judge has no compiler or no Python yet")]
    #[diagnostic(code(bench::no_gpu))]
    NotReady,
    #[error("op.toml has no workload {}to measure on cuda", named(name))]
    #[diagnostic(code(bench::unknown_workload), help("workloads to choose from: {known}"))]
    NoWorkload { name: Option<String>, known: String },
}

fn named(name: &Option<String>) -> String {
    name.as_ref().map_or_else(String::new, |name| format!("`{name}` "))
}

impl StageError for ScreeningError {
    fn exit(&self) -> u8 {
        exit::BENCH
    }
}

impl ScreeningError {
    /// That there is no GPU, as a failure.
    pub(crate) fn no_gpu(cause: NoDevice) -> Failure {
        Self::NoGpu(cause).into()
    }
}

/// The cases of a workload, or of all that are measured on cuda; a case is named by its workload or by itself.
pub(crate) fn cases(op: &OpSpec, name: Option<&str>) -> Result<Vec<Case>, ScreeningError> {
    let mut cases = op.cases(Purpose::Bench, Device::Cuda);
    let mut known: Vec<String> = cases.iter().map(|case| case.id.clone()).collect();
    known.dedup();
    cases.retain(|case| name.is_none_or(|name| case.workload.as_str() == name || case.id == name));
    if cases.is_empty() {
        let known = if known.is_empty() {
            "none; add `devices = [\"cuda\"]` to a workload".to_owned()
        } else {
            known.join(", ")
        };
        return Err(ScreeningError::NoWorkload { name: name.map(str::to_owned), known });
    }
    Ok(cases)
}

/// The properties that all candidates of a workload share.
pub(crate) struct Task<'a> {
    pub(crate) op: &'a OpSpec,
    pub(crate) project: &'a std::path::Path,
    pub(crate) case: &'a Case,
    /// The least times that are possible for a candidate.
    pub(crate) bounds: Bounds,
    /// The best architecture of the device: `90a`.
    pub(crate) arch: &'a str,
    pub(crate) compiler: &'a Compiler,
    pub(crate) python: &'a PythonRuntime,
    /// How long a candidate's kernels may take at a time.
    pub(crate) patience: Duration,
    /// How many texts are compiled at a time.
    pub(crate) jobs: usize,
}

/// One candidate.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The caller's number for it.
    pub(crate) place: usize,
    pub(crate) tuning: Tuning,
    /// Code and launch, or why there is nothing to compile.
    pub(crate) code: Attempt<Coded>,
}

/// Device code, and how it is started.
#[derive(Debug, Clone)]
pub(crate) struct Coded {
    pub(crate) source: Arc<Source>,
    /// The launch of a candidate that has one of its own; the operation's if `None`.
    pub(crate) launch: Option<Arc<Launch>>,
}

impl Coded {
    /// Code that is started as the operation says.
    pub(crate) fn new(source: &Arc<Source>) -> Self {
        Self { source: source.clone(), launch: None }
    }
}

/// A candidate that is compiled, or why it is not.
pub(crate) struct Compiled {
    pub(crate) place: usize,
    pub(crate) seconds: f64,
    pub(crate) code: Attempt<(ConcreteLaunch, Code)>,
}

/// A line that takes candidates and returns them compiled.
pub(crate) struct Line<'a> {
    queue: &'a Queue,
    compiled: mpsc::Receiver<Result<Compiled, NvrtcError>>,
    /// How many are on their way.
    flying: std::cell::Cell<usize>,
}

/// The candidates that are still to be compiled.
#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    more: Condvar,
    closed: AtomicBool,
}

impl Task<'_> {
    /// Compiles what `work` hands in, in as many threads as there are jobs, until it returns. However it ends, nobody
    /// waits for somebody who has left.
    pub(crate) fn run<T>(&self, work: impl FnOnce(&Line<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        let queue = Queue::default();
        let (send, compiled) = mpsc::sync_channel(4 * self.jobs.max(1));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                let (send, queue) = (send.clone(), &queue);
                scope.spawn(move || {
                    while let Some(job) = queue.take() {
                        if send.send(self.compile(&job)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let line = Line { queue: &queue, compiled, flying: std::cell::Cell::new(0) };
            work(&line)
        })
    }

    /// The part of the workload that needs no device.
    pub(crate) fn groundwork(&self, beside: ProcessorShare) -> Result<Groundwork, VerifyError> {
        Groundwork::lay(self.op, self.project, self.case, self.python, beside)
    }

    /// The workload ready on the device.
    pub(crate) fn lab(&self, groundwork: Groundwork, checker: Gpu) -> Result<Lab, Failure> {
        let lab = Lab::on(&groundwork, checker, self.compiler, self.patience, ROOM);
        lab.map_err(|error| match error {
            NoLab::Device(cause) => ScreeningError::no_gpu(cause),
            NoLab::Failed(error) => error.into(),
        })
    }

    /// Compiles a setting, so that the cache has it; a later request reports why it cannot be compiled.
    pub(crate) fn warm(&self, tuning: Tuning, source: &Arc<Source>) {
        let _kept = self.compile(&Job { place: 0, tuning, code: Ok(Coded::new(source)) });
    }

    fn compile(&self, job: &Job) -> Result<Compiled, NvrtcError> {
        let started = Instant::now();
        let code = match &job.code {
            Ok(Coded { source, launch }) => {
                let launch = launch.as_deref().or(self.op.launch.as_ref());
                compile(source, launch, self.case, &job.tuning, (self.arch, self.compiler), Detail::Line)?
            }
            Err(complaint) => Err(complaint.clone()),
        };
        Ok(Compiled { place: job.place, seconds: started.elapsed().as_secs_f64(), code })
    }
}

/// How much is told of what a compiler says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The first error.
    Line,
    /// Everything.
    Log,
}

/// Compiles what a case starts, or says why it cannot be started.
///
/// # Errors
/// The compiler itself fails.
pub(crate) fn compile(
    source: &Source,
    launch: Option<&Launch>,
    case: &Case,
    tuning: &Tuning,
    (arch, compiler): (&str, &Compiler),
    detail: Detail,
) -> Result<Attempt<(ConcreteLaunch, Code)>, NvrtcError> {
    let refused = |code, text: String| Ok(Err(CandidateRefusal { code, text }));
    let Some(launch) = launch else {
        return refused("verify::launch", "op.toml has no [launch]".to_owned());
    };
    let launch = match launch.evaluate(case, tuning) {
        Ok(launch) => launch,
        Err(error) => return refused("verify::launch", error.to_string()),
    };
    match Code::compile(source, [&launch], arch, compiler) {
        Ok(code) => match state::examine(&code) {
            Ok(found) => match checks::state::complaint(&found) {
                Some(complaint) => Ok(Err(complaint)),
                None => Ok(Ok((launch, code))),
            },
            Err(error) => refused("verify::state", chain(&error)),
        },
        Err(
            error @ (NvrtcError::File(_)
            | NvrtcError::Process(_)
            | NvrtcError::Library { .. }
            | NvrtcError::NotStarted { .. }),
        ) => Err(error),
        Err(NvrtcError::Rejected { status, log, .. }) if detail == Detail::Log => {
            refused("compile::device_code", format!("{status}\n{log}"))
        }
        Err(error) => refused("compile::device_code", chain(&error)),
    }
}

impl Line<'_> {
    /// Hands a candidate in.
    pub(crate) fn give(&self, job: Job) {
        self.flying.set(self.flying.get() + 1);
        self.queue.give(job);
    }

    /// The next candidate that is compiled, in whatever order; nothing when none is on its way.
    ///
    /// # Errors
    /// The compiler itself fails, or ctrl-C.
    pub(crate) fn next(&self) -> Result<Option<Compiled>, Failure> {
        while self.flying.get() > 0 {
            interrupt::check()?;
            match self.compiled.recv_timeout(LOOK) {
                Ok(one) => {
                    self.flying.set(self.flying.get() - 1);
                    return Ok(Some(one?));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(None)
    }

    /// Forgets what is on its way: what was not begun is not compiled, and the rest is waited for.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        let dropped = self.queue.clear();
        self.flying.set(self.flying.get() - dropped);
        while self.next()?.is_some() {}
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Queue {
    fn give(&self, job: Job) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
        self.more.notify_one();
    }

    /// The next one; nothing when no more will come.
    fn take(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.closed.load(Ordering::SeqCst) || interrupt::requested() {
                return None;
            }
            if let Some(job) = jobs.pop_front() {
                return Some(job);
            }
            let waited = self.more.wait_timeout(jobs, LOOK);
            jobs = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn clear(&self) -> usize {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *jobs).len()
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.more.notify_all();
    }
}

/// The result of the screen for a compiled candidate.
pub(crate) fn judged(
    one: &Compiled,
    screen: &mut Screen,
    samples: usize,
    enough: Option<f64>,
) -> Result<Attempt<crate::bench::screen::ScreenResult>, Failure> {
    Ok(match &one.code {
        Ok((launch, code)) => screen.candidate(launch, code, samples, enough)?,
        Err(complaint) => Err(complaint.clone()),
    })
}

#[cfg(test)]
mod tests {
    use crate::bench::impossible::Rates;
    use kernel_plan::diagnostic::SourceFile;

    use super::*;
    use crate::base::files;
    use crate::compile::nvrtc::Kit;
    use crate::toolchain::nvrtc::NvrtcKit;

    fn op() -> OpSpec {
        let text = include_str!("../../../../examples/rms-norm-device/op.toml");
        kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap()
    }

    #[test]
    fn a_case_is_named_by_its_workload_or_itself() {
        let op = op();
        let names = |name| cases(&op, name).map(|cases| cases.len()).map_err(|error| chain(&error));
        assert_eq!((names(None), names(Some("llm-128x4096"))), (Ok(6), Ok(3)));
        assert_eq!(names(Some("llm-128x4096/T=f16")), Ok(1));
        let error = names(Some("nowhere")).unwrap_err();
        assert!(error.contains("`nowhere`"), "{error}");
        assert!(names(Some("odd-hidden")).is_err(), "it is verified and not measured");
    }

    /// Hands in settings that have no launch, so that nothing is compiled.
    fn with_line<T>(
        work: impl FnOnce(&Line<'_>, &dyn Fn(usize)) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let op = op();
        let case = cases(&op, None).unwrap().remove(0);
        let cache = files::scratch().unwrap();
        let kit = NvrtcKit { library: "none".into(), builtins: None, include: vec![], id: "none".to_owned() };
        let compiler = Compiler::new(Kit::Nvrtc(kit), cache.path()).unwrap();
        let python =
            PythonRuntime { program: "none".into(), site: None, beside: vec![], torch: String::new() };
        let source =
            Arc::new(Source { text: String::new(), name: String::new(), include: vec![], root: None });
        let task = Task {
            op: &op,
            project: cache.path(),
            case: &case,
            bounds: Rates { memory: None, l2: None, matrix: Default::default(), headroom: None }
                .bounds(&op, &case),
            arch: "90a",
            compiler: &compiler,
            python: &python,
            patience: Duration::from_secs(1),
            jobs: 3,
        };
        task.run(|line| {
            let give = |place| line.give(Job { place, tuning: Tuning::new(), code: Ok(Coded::new(&source)) });
            work(line, &give)
        })
    }

    #[test]
    fn what_is_handed_in_comes_out_once() {
        let found = with_line(|line, give| {
            assert!(line.next()?.is_none());
            // More than are taken out meanwhile: whoever compiles waits, and whoever hands in does not.
            (0..100).for_each(give);
            let mut found = Vec::new();
            while let Some(one) = line.next()? {
                assert_eq!(one.code.unwrap_err().code, "verify::launch");
                found.push(one.place);
            }
            Ok(found)
        });
        let mut found = found.unwrap();
        found.sort_unstable();
        assert_eq!(found, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_forgotten_does_not_come_out() {
        let found = with_line(|line, give| {
            (0..100).for_each(give);
            line.clear()?;
            assert!(line.next()?.is_none());
            give(100);
            Ok(line.next()?.map(|one| one.place))
        });
        assert_eq!(found.unwrap(), Some(100));
        // Whoever leaves early leaves nobody waiting.
        let left: Result<(), Failure> = with_line(|_, give| {
            (0..100).for_each(give);
            Err(Failure::already_reported(exit::BENCH))
        });
        assert_eq!(left.unwrap_err().exit, exit::BENCH);
    }

    #[test]
    fn a_closed_queue_ends_whoever_waits() {
        let queue = Queue::default();
        let source =
            Arc::new(Source { text: String::new(), name: String::new(), include: vec![], root: None });
        for place in 0..3 {
            queue.give(Job { place, tuning: Tuning::new(), code: Ok(Coded::new(&source)) });
        }
        assert_eq!(queue.take().map(|job| job.place), Some(0));
        assert_eq!(queue.clear(), 2);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.take().is_none());
            queue.close();
            assert!(waiting.join().unwrap());
        });
    }
}
