//! Many device candidates on one workload: compiled side by side, judged and timed one after the other.
//!
//! Owns: what a candidate is, in which order they come back. Never: judges or times; `bench::screen` does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::expr::{Bindings, Value};
use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;
use miette::Diagnostic;
use serde::Deserialize;
use thiserror::Error;

use crate::agent::tuned::Chosen;
use crate::agent::tuner::drawn::{DrawSize, Drawn, drawn};
use crate::agent::tuner::prune::{Pruned, Reason};
use crate::agent::tuner::space::Space;
use crate::base::causes::Cause;
use crate::base::report::{Event, Progress, ProgressKind, bytes};
use crate::base::session::Session;
use crate::base::{env, files, interrupt};
use crate::bench::screen::{Screen, Screened};
use crate::bench::{known, render};
use crate::compile::nvrtc::{Source, Tool};
use crate::device::gpu::Gpu;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::judge::device;
use crate::pipeline::project;
use crate::pipeline::project::device::DeviceProject;
use crate::pipeline::project::tuned::{self, Choice};
use crate::toolchain::Extras;
use crate::toolchain::python::{self, Torch};
use crate::verify::device as judge;
use crate::verify::lab::{Attempt, Beside};

use super::ceilings;
use super::screening::{self, Compiled, Job, ScreeningError, Task};

/// What stops screening.
#[derive(Debug, Error, Diagnostic)]
enum ScreenError {
    #[error("line {line} of the candidates is no candidate")]
    #[diagnostic(
        code(bench::candidate),
        help(
            "a line is a JSON object with `tuning` (a value for tunables of op.toml), `source` (a path), or both"
        )
    )]
    Line {
        line: usize,
        #[source]
        cause: Cause,
    },
    #[error("[tune] has too many settings to look at all of them")]
    #[diagnostic(
        code(bench::candidate),
        help(
            "screen a sample with `--limit N`, or write candidates to a file and name it by `--candidates`"
        )
    )]
    TooMany,
}

impl StageError for ScreenError {
    fn exit(&self) -> u8 {
        exit::BENCH
    }
}

/// One candidate.
pub(crate) struct Candidate {
    /// Its tunables.
    pub(crate) tuning: Tuning,
    source: Arc<Source>,
    /// Its source as it was named, where it is not the project's.
    pub(crate) file: Option<String>,
    /// Where the tunables come from that it does not name; nothing for one that names all.
    pub(crate) base: Option<String>,
}

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
pub(crate) struct Judged<'a> {
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
    pub(crate) attempt: Attempt<Screened>,
}

/// Screens all candidates; `each` hears of every one as soon as it is judged.
///
/// # Errors
/// There is no GPU, no such workload, a line that is no candidate; or the judge itself fails.
pub(crate) fn screen(
    args: &Request,
    session: &Session,
    each: &mut dyn FnMut(&Judged<'_>),
) -> Result<(), Failure> {
    let started = Instant::now();
    let project = tuned::read_project(&args.dir, args.choice, session)?;
    let case = screening::cases(&project.op, args.workload.as_deref())?.swap_remove(0);
    let candidates = candidates(args, &project, &case, session)?;
    let mut checker = Gpu::new();
    let about = judge::device(&mut checker)?.map_err(ScreeningError::no_gpu)?;
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
            let (tuning, source) = (candidate.tuning.clone(), candidate.source.clone());
            line.give(Job { place, tuning, source });
        }
        let mut tally = Tally::new(session, &candidates, started);
        let lab = task.lab(task.groundwork(Beside::Nobody)?, checker)?;
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    tuning: serde_json::Map<String, serde_json::Value>,
    source: Option<PathBuf>,
}

fn candidates(
    args: &Request,
    project: &DeviceProject,
    case: &Case,
    session: &Session,
) -> Result<Vec<Candidate>, Failure> {
    let own = Arc::new(project.source.clone());
    let Some(path) = &args.candidates else {
        let own = |tuning| Candidate { tuning, source: own.clone(), file: None, base: None };
        let Drawn { settings, of } = settings(&project.op, case, args.amount, args.seed)?;
        if let Some(of) = of {
            session.report.note(format!(
                "screening {} of {of} settings of [tune], drawn with --seed {}; --limit N takes more, --all every one",
                settings.len(),
                args.seed,
            ));
        }
        return Ok(settings.into_iter().map(own).collect());
    };
    let path = if path.as_os_str() == "-" { Path::new("/dev/stdin") } else { path };
    let text = files::read_text_of_any(path)?;
    let mut found = Vec::new();
    // What a line does not name is as the project has it for this workload.
    let Chosen { tuning: base, from } = project.settings.choose(&project.op, case);
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |cause: Cause| ScreenError::Line { line: number + 1, cause };
        let read: Line = serde_json::from_str(line).map_err(|error| wrong(error.into()))?;
        let mut tuning = base.clone();
        for (name, value) in &read.tuning {
            let known = tuning.iter_mut().find(|(known, _)| known.as_str() == name);
            let (_, place) =
                known.ok_or_else(|| wrong(format!("`{name}` is no tunable of op.toml").into()))?;
            let given = match (value.as_i64(), value.as_bool()) {
                (Some(number), _) => Value::Integer(number),
                (_, Some(truth)) => Value::Boolean(truth),
                _ => {
                    return Err(
                        wrong(format!("`{name}` is neither a whole number nor a truth").into()).into()
                    );
                }
            };
            let tunables = &project.op.tune.tunables;
            let choice = tunables.iter().find(|tunable| tunable.name.value.as_str() == name);
            if choice.is_some_and(|tunable| !tunable.values.contains(&given)) {
                let problem = format!("{given} is none of the values that op.toml has for `{name}`");
                return Err(wrong(problem.into()).into());
            }
            *place = given;
        }
        if !project.op.tune.admits(&Bindings::new(case, &tuning)).unwrap_or_default() {
            return Err(wrong("the constraints of [tune] do not hold for this workload".into()).into());
        }
        let mut source = own.clone();
        if let Some(file) = &read.source {
            let mut other = project.source.clone();
            other.text = files::read_text(file)?;
            other.name = file.display().to_string();
            other.include.extend(env::absolute(file).parent().map(Path::to_owned));
            source = Arc::new(other);
        }
        let file = read.source.map(|file| file.display().to_string());
        found.push(Candidate { tuning, source, file, base: Some(from.clone()) });
    }
    Ok(found)
}

/// Settings that the constraints admit for a case, the last tunable changing fastest.
fn settings(op: &OpSpec, case: &Case, amount: DrawSize, seed: u64) -> Result<Drawn, ScreenError> {
    let admit = |tuning: &Tuning| match op.tune.admits(&Bindings::new(case, tuning)) {
        Ok(true) => Ok(()),
        _ => Err(Pruned { reason: Reason::Constraint, text: String::new() }),
    };
    let mut space = Space::new(&op.tune.tunables, Box::new(admit));
    drawn(&mut space, &op.tune.default_tuning(), amount, seed).ok_or(ScreenError::TooMany)
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
        each: &mut dyn FnMut(&Judged<'_>),
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
        each(&Judged {
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

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_plan::diagnostic::SourceFile;

    #[test]
    fn every_setting_that_is_admitted_is_a_candidate() {
        let text = include_str!("../../../../examples/rms-norm-device/op.toml");
        let (op, problems) = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text));
        assert!(problems.is_empty(), "{problems:?}");
        let op = op.unwrap();
        let case = screening::cases(&op, Some("llm-4096x4096")).unwrap().remove(0);
        let all = settings(&op, &case, DrawSize::AtMost(1000), 0).unwrap();
        assert_eq!((all.settings.len(), all.of), (16 * 3 * 4 * 2 * 2, None));
        assert!(all.settings.contains(&op.tune.default_tuning()));
    }
}
