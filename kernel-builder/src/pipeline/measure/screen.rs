//! Many device candidates on one workload: compiled side by side, judged and timed one after the other.
//!
//! Owns: in which order they come back, and what is told of all of them. Never: judges or times; `bench::screen` does.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel_plan::spec::op::Case;

use crate::agent::tuner::drawn::DrawSize;
use crate::base::report::{Event, Progress, ProgressKind, bytes};
use crate::base::session::Session;
use crate::base::{files, interrupt};
use crate::bench::screen::{Screen, ScreenResult};
use crate::bench::{known, render};
use crate::compile::nvrtc::Tool;
use crate::device::gpu::Gpu;
use crate::exit::Failure;
use crate::pipeline::judge::device;
use crate::pipeline::project;
use crate::pipeline::project::device::DeviceProject;
use crate::pipeline::project::tuned::{self, Choice};
use crate::toolchain::Extras;
use crate::toolchain::python::{self, Torch};
use crate::verify::device as judge;
use crate::verify::lab::{Attempt, ProcessorShare};

use super::ceilings;
use super::listed::{self, Candidate, Lines};
use super::screening::{self, Compiled, Job, ScreeningError, Task};
use super::turn;

/// What is screened, and how.
#[derive(Debug)]
pub(crate) struct Request {
    /// The folder or the op file.
    pub(crate) dir: PathBuf,
    /// A file of candidates, or `-`; the settings of `[tune]` if `None`.
    pub(crate) candidates: Option<PathBuf>,
    /// How many settings of `[tune]`.
    pub(crate) amount: DrawSize,
    /// The seed of their sample.
    pub(crate) seed: u64,
    /// The workload, or the first that is measured on cuda.
    pub(crate) workload: Option<String>,
    /// Samples of each candidate.
    pub(crate) samples: usize,
    /// How long the kernels of a candidate may take at a time.
    pub(crate) patience: Duration,
    /// The compiler of device code.
    pub(crate) compiler: Tool,
    /// Which tunables candidates have that they do not name.
    pub(crate) choice: Choice,
}

/// A candidate that was judged.
pub(crate) struct JudgedCandidate<'a> {
    /// Its place among the candidates.
    pub(crate) place: usize,
    /// The candidate.
    pub(crate) candidate: &'a Candidate,
    /// What compiling it took, in seconds.
    pub(crate) compile_seconds: f64,
    /// What judging and timing it took, in seconds.
    pub(crate) judge_seconds: f64,
    /// Which of the processes of the GPU had it, and how long that one took to start, where it had to.
    pub(crate) worker: u32,
    /// See `worker`.
    pub(crate) worker_seconds: Option<f64>,
    /// Its figures, or what is wrong with it.
    pub(crate) attempt: Attempt<ScreenResult>,
}

/// Screens all candidates; `each` hears of every one as soon as it is judged.
///
/// # Errors
/// There is no GPU, no such workload, a line that is no candidate; or the judge itself fails.
pub(crate) fn screen(
    args: &Request,
    session: &Session,
    each: &mut dyn FnMut(&JudgedCandidate<'_>),
) -> Result<(), Failure> {
    let started = Instant::now();
    let project = tuned::read_project(&args.dir, args.choice, session)?;
    let case = screening::cases(&project.op, args.workload.as_deref())?.swap_remove(0);
    // It holds the code of candidates that are folders until all are judged.
    let lines = Lines::new(&project, &case)?;
    let candidates = candidates(args, &project, &lines, &case, session)?;
    let mut checker = Gpu::new();
    let about = judge::device(&mut checker)?.map_err(ScreeningError::no_gpu)?;
    let _turn = turn::on(&about, session)?;
    let arch = judge::arch_of(&about);
    let compiler = device::compiler(args.compiler, session)?;
    let python = python::runtime(session, Torch::Preferably(project::TORCH), Extras::default())?;
    let task = Task {
        op: &project.op,
        project: &project.dir,
        case: &case,
        bounds: ceilings::rates(&about, session).bounds(&project.op, &case),
        arch: &arch,
        compiler: &compiler,
        python: &python,
        patience: args.patience,
        jobs: session.jobs.min(candidates.len()),
    };
    task.run(|line| {
        for (place, candidate) in candidates.iter().enumerate() {
            let (tuning, code) = (candidate.tuning.clone(), candidate.code.clone());
            line.give(Job { place, tuning, code });
        }
        let mut tally = Tally::new(session, &candidates, started);
        let lab = task.lab(task.groundwork(ProcessorShare::Nobody)?, checker)?;
        let mut screen = Screen::new(lab, task.bounds.clone());
        tally.ready(&screen);
        while let Some(one) = line.next()? {
            tally.judge(&one, &mut screen, args.samples, each)?;
        }
        interrupt::check()?;
        tally.end();
        Ok(())
    })
}

fn candidates(
    args: &Request,
    project: &DeviceProject,
    lines: &Lines<'_>,
    case: &Case,
    session: &Session,
) -> Result<Vec<Candidate>, Failure> {
    let Some(path) = &args.candidates else {
        let (candidates, of) = listed::of_tune(project, case, args.amount, args.seed)?;
        if let Some(of) = of {
            session.report.note(format!(
                "screening {} of {of} settings of [tune], drawn with --seed {}; use --limit N for more, --all for every one",
                candidates.len(),
                args.seed,
            ));
        }
        return Ok(candidates);
    };
    let path = if path.as_os_str() == "-" { Path::new("/dev/stdin") } else { path };
    lines.read(&files::read_text_of_any(path)?)
}

/// What came of all candidates so far.
struct Tally<'a> {
    session: &'a Session,
    candidates: &'a [Candidate],
    progress: Progress,
    started: Instant,
    /// When the first candidate could be judged.
    since: Instant,
    judged: usize,
    right: usize,
    /// Right ones whose time is not a result.
    unmeasured: usize,
    busy: f64,
    best: Option<f64>,
}

impl<'a> Tally<'a> {
    fn new(session: &'a Session, candidates: &'a [Candidate], started: Instant) -> Self {
        let progress =
            session.report.progress("screening", ProgressKind::Count, Some(candidates.len() as u64));
        Self {
            session,
            candidates,
            progress,
            started,
            since: Instant::now(),
            judged: 0,
            right: 0,
            unmeasured: 0,
            busy: 0.0,
            best: None,
        }
    }

    fn ready(&mut self, screen: &Screen) {
        let lab = screen.lab();
        self.since = Instant::now();
        self.session.report.note(format!(
            "{}: {} slots of {}, ready after {:.1} s",
            lab.about().name,
            lab.slots(),
            bytes(lab.bytes()),
            self.started.elapsed().as_secs_f64(),
        ));
    }

    fn judge(
        &mut self,
        one: &Compiled,
        screen: &mut Screen,
        samples: usize,
        each: &mut dyn FnMut(&JudgedCandidate<'_>),
    ) -> Result<(), Failure> {
        let started = Instant::now();
        let attempt = screening::judged(one, screen, samples, None)?;
        let judge_seconds = started.elapsed().as_secs_f64();
        self.busy += judge_seconds;
        self.judged += 1;
        self.progress.add(1);
        if let Ok(screened) = &attempt {
            self.right += 1;
            match known::of_samples(&screened.samples) {
                Ok(()) => {
                    let seconds = screened.seconds;
                    self.best = Some(self.best.map_or(seconds, |best| best.min(seconds)));
                }
                Err(_) => self.unmeasured += 1,
            }
        }
        each(&JudgedCandidate {
            place: one.place,
            candidate: &self.candidates[one.place],
            compile_seconds: one.seconds,
            judge_seconds,
            worker: screen.lab().generation(),
            worker_seconds: screen.restarted().map(|took| took.as_secs_f64()),
            attempt,
        });
        Ok(())
    }

    fn end(&self) {
        let (all, judging) = (self.started.elapsed().as_secs_f64(), self.since.elapsed().as_secs_f64());
        let rate = |seconds: f64| 60.0 * self.judged as f64 / seconds.max(1e-9);
        let best = self.best.map_or_else(String::new, |best| format!("; best {}", render::time(best)));
        let unmeasured = match self.unmeasured {
            0 => String::new(),
            count => format!(", {count} of them not measured"),
        };
        let detail = format!(
            "{} right of {}{unmeasured}{best}; {:.0} a minute ({:.0} with the start), the GPU's process at work {:.0}% of the time",
            self.right,
            self.judged,
            rate(judging),
            rate(all),
            100.0 * self.busy / judging.max(1e-9),
        );
        self.session.report.emit(&Event::Done {
            action: "screened",
            subject: "candidates",
            detail: &detail,
            seconds: all,
            cached: false,
        });
    }
}
