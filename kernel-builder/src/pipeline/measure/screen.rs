//! `screen`: many device candidates on one workload: compiled side by side, judged and timed one after the other.
//!
//! Owns: what a candidate is, in which order they come back. Never: judges or times; `bench::screen` does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use kernel_plan::spec::OpSpec;
use kernel_plan::spec::expr::{Bindings, Value};
use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;
use miette::Diagnostic;
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;

use crate::agent::tuned::Chosen;
use crate::agent::tuner::drawn::{Amount, Drawn, drawn};
use crate::agent::tuner::prune::{Pruned, Reason};
use crate::agent::tuner::space::Space;
use crate::base::report::{Event, ProgressKind};
use crate::base::session::Session;
use crate::base::{env, files, interrupt};
use crate::bench::known;
use crate::bench::screen::{Screen, Screened};
use crate::compile::nvrtc::{Source, Tool};
use crate::device::gpu::Gpu;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::judge::device::{self, DeviceProject};
use crate::pipeline::measure::ceilings as gpu;
use crate::pipeline::measure::screening::{self, Compiled, Job, ScreeningError, Task};
use crate::pipeline::project;
use crate::pipeline::project::tuned::Choice;
use crate::verify::device as judge;
use crate::verify::lab::Beside;

/// Settings of `[tune]` that are screened unless `--limit` or `--all` says otherwise.
const LIMIT: u32 = 1000;

/// Verify and time many device-code candidates on one workload
///
/// A candidate is a setting of `[tune]`, another source file, or both. Each one is compiled, called on new inputs,
/// compared in full with the float64 reference, and timed in CUDA graphs whose calls are all compared too. This takes
/// tens of milliseconds per candidate. Each result is printed at once: the time and the share of copy speed, or the
/// code of the error. Requires an NVIDIA GPU.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright screen examples/rms-norm-device --workload llm-4096x4096
  kernelwright screen my-norm --candidates candidates.jsonl --samples 15")]
pub(crate) struct Args {
    #[command(flatten)]
    project: project::TaskDir,
    /// File with one JSON object per line, such as `{"tuning": {"block": 256}, "source": "other.cu"}`; both keys are
    /// optional, and `-` reads standard input. Default: every setting of `[tune]`
    #[arg(long, value_name = "FILE")]
    candidates: Option<PathBuf>,
    /// Largest number of settings of `[tune]`; a larger space is sampled, and the sample includes the defaults
    #[arg(long, value_name = "N", default_value_t = LIMIT, conflicts_with_all = ["candidates", "all"],
        value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Screen every setting of `[tune]`
    #[arg(long, conflicts_with = "candidates")]
    all: bool,
    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["candidates", "all"])]
    seed: u64,
    /// Workload, named as in `bench`; default: the first that is measured on cuda
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Samples of each candidate, after one to warm up; at least 6, which a time needs
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(6..=1000))]
    samples: u16,
    /// Time in seconds after which a running kernel counts as hung
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    patience: f64,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH")]
    compiler: Option<Tool>,
    /// Give tunables that a candidate does not set their defaults, not the settings that `fill` found for this GPU
    #[arg(long)]
    untuned: bool,
}

/// What stops screening.
#[derive(Debug, Error, Diagnostic)]
enum ScreenError {
    #[error("line {line} of the candidates is no candidate: {reason}")]
    #[diagnostic(
        code(bench::candidate),
        help(
            "a line is a JSON object with `tuning` (a value for tunables of op.toml), `source` (a path), or both"
        )
    )]
    Line { line: usize, reason: String },
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
struct Candidate {
    tuning: Tuning,
    source: Arc<Source>,
    /// As it was named, where it is not the project's.
    file: Option<String>,
    /// Where the tunables come from that it does not name; nothing for one that names all.
    base: Option<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let started = Instant::now();
    let project = device::read_with(&args.project.dir, Choice::of(args.untuned), session)?;
    let case = screening::cases(&project.op, args.workload.as_deref())?.swap_remove(0);
    let candidates = candidates(args, &project, &case, session)?;
    let mut checker = Gpu::new();
    let about = judge::device(&mut checker)?.map_err(ScreeningError::no_gpu)?;
    let arch = judge::arch_of(&about);
    let compiler = device::compiler(args.compiler.unwrap_or_default(), session)?;
    let python = crate::toolchain::python::runtime(
        session,
        crate::toolchain::python::Torch::Preferably(project::TORCH),
        crate::toolchain::Extras::default(),
    )?;
    let task = Task {
        op: &project.op,
        project: &project.dir,
        case: &case,
        bounds: gpu::rates(&about, session).bounds(&project.op, &case),
        arch: &arch,
        compiler: &compiler,
        python: &python,
        patience: Duration::from_secs_f64(args.patience.clamp(0.05, 600.0)),
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
            tally.judge(&one, &mut screen, usize::from(args.samples))?;
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
    args: &Args,
    project: &DeviceProject,
    case: &Case,
    session: &Session,
) -> Result<Vec<Candidate>, Failure> {
    let own = Arc::new(project.source.clone());
    let Some(path) = &args.candidates else {
        let own = |tuning| Candidate { tuning, source: own.clone(), file: None, base: None };
        let amount = if args.all { Amount::All } else { Amount::AtMost(args.limit as usize) };
        let Drawn { settings, of } = settings(&project.op, case, amount, args.seed)?;
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
    let Chosen { tuning: base, from } = project.settings.of(&project.op, case);
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |reason: String| ScreenError::Line { line: number + 1, reason };
        let read: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let mut tuning = base.clone();
        for (name, value) in &read.tuning {
            let known = tuning.iter_mut().find(|(known, _)| known.as_str() == name);
            let (_, place) = known.ok_or_else(|| wrong(format!("`{name}` is no tunable of op.toml")))?;
            let given = match (value.as_i64(), value.as_bool()) {
                (Some(number), _) => Value::Integer(number),
                (_, Some(truth)) => Value::Boolean(truth),
                _ => return Err(wrong(format!("`{name}` is neither a whole number nor a truth")).into()),
            };
            let tunables = &project.op.tune.tunables;
            let choice = tunables.iter().find(|tunable| tunable.name.value.as_str() == name);
            if choice.is_some_and(|tunable| !tunable.values.contains(&given)) {
                let reason = format!("{given} is none of the values that op.toml has for `{name}`");
                return Err(wrong(reason).into());
            }
            *place = given;
        }
        if !project.op.tune.admits(&Bindings::of(case, &tuning)).unwrap_or_default() {
            return Err(wrong("the constraints of [tune] do not hold for this workload".to_owned()).into());
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
fn settings(op: &OpSpec, case: &Case, amount: Amount, seed: u64) -> Result<Drawn, ScreenError> {
    let admit = |tuning: &Tuning| match op.tune.admits(&Bindings::of(case, tuning)) {
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
    progress: crate::base::report::Progress,
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
            crate::base::report::bytes(lab.bytes()),
            self.started.elapsed().as_secs_f64(),
        ));
    }

    fn judge(&mut self, one: &Compiled, screen: &mut Screen, samples: usize) -> Result<(), Failure> {
        let started = Instant::now();
        let attempt = screening::judged(one, screen, samples, None)?;
        let seconds = started.elapsed().as_secs_f64();
        self.busy += seconds;
        self.judged += 1;
        self.progress.add(1);
        let candidate = &self.candidates[one.place];
        let tuning: serde_json::Map<String, serde_json::Value> =
            candidate.tuning.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
        let words = candidate.file.iter().cloned();
        let words: Vec<String> =
            words.chain(tuning.iter().map(|(name, value)| format!("{name}={value}"))).collect();
        let mut row = json!({
            "place": one.place, "tuning": tuning, "source": candidate.file, "base": candidate.base,
            "compile_seconds": one.seconds, "judge_seconds": seconds,
            "worker": screen.lab().generation(),
            "worker_seconds": screen.restarted().map(|took| took.as_secs_f64()),
        });
        let human = match &attempt {
            Ok(screened) => {
                self.right += 1;
                put(&mut row, screened);
                match known::of_samples(&screened.samples) {
                    Ok(()) => {
                        let seconds = screened.seconds;
                        self.best = Some(self.best.map_or(seconds, |best| best.min(seconds)));
                    }
                    Err(_) => self.unmeasured += 1,
                }
                line(screened, &words)
            }
            Err(complaint) => {
                row["verdict"] = json!("refused");
                row["code"] = json!(complaint.code);
                row["summary"] = json!(complaint.text);
                format!("{:>10}  {}: {}  {}\n", "refused", complaint.code, complaint.text, words.join(" "))
            }
        };
        self.session.report.result("screen", &row, &human);
        Ok(())
    }

    fn end(&self) {
        let (all, judging) = (self.started.elapsed().as_secs_f64(), self.since.elapsed().as_secs_f64());
        let rate = |seconds: f64| 60.0 * self.judged as f64 / seconds.max(1e-9);
        let best =
            self.best.map_or_else(String::new, |best| format!("; best {}", crate::bench::render::time(best)));
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

/// A right candidate as a line for people.
fn line(screened: &Screened, words: &[String]) -> String {
    let words = words.join(" ");
    if let Err(why) = known::of_samples(&screened.samples) {
        return format!("not measured: {why}  {words}\n");
    }
    let copy = screened.copy_fraction.map_or_else(String::new, |share| format!("{share:.3} of copy"));
    format!("{:>10}  {copy}  {words}\n", crate::bench::render::time(screened.seconds))
}

/// A right candidate as data. A time that is not a result is only in the samples.
fn put(row: &mut serde_json::Value, screened: &Screened) {
    let unknown = known::of_samples(&screened.samples).err();
    row["verdict"] = json!("passed");
    row["seconds"] = json!(unknown.is_none().then_some(screened.seconds));
    row["samples"] = json!(screened.samples);
    row["copy_fraction"] = json!(screened.copy_fraction.filter(|_| unknown.is_none()));
    row["not_measured"] = json!(unknown);
    row["of_bound"] = json!(screened.of_bound);
    row["functions"] = json!(screened.functions);
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
        let all = settings(&op, &case, Amount::AtMost(1000), 0).unwrap();
        assert_eq!((all.settings.len(), all.of), (16 * 3 * 4 * 2 * 2, None));
        assert!(all.settings.contains(&op.tune.default_tuning()));
    }
}
