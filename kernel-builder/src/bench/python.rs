//! A Python process that times: `harness/timer.py`, either with the package or with the reference, never with both.
//!
//! Owns: what a process is given, its requests and answers, how long each may take, this program's clock round a block.
//! Never: believes a line without the nonce; what a kernel prints is not for us. Decides nothing about samples.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;
use kernel_plan::spec::op::Case;
use tempfile::TempDir;

use crate::base::confine;
use crate::base::files::{self, FileError};
use crate::base::process::{Dialogue, DialogueEvent, Ending, ProcessError, Start};
use crate::base::{random, report};
pub(super) use crate::protocol::bench::Machine;
use crate::protocol::bench::{self, Answer, BlockRequest, Job, Request, TimedCase};
use crate::protocol::{self, Opening};
use crate::toolchain::PythonRuntime;

use super::contender::{Ask, Block, CallTracer, Fault, Need, Prepared, Referee, TimedCall, Timer};
use super::cupti::{Cupti, Launched};
use super::machine;

/// What both roles are made of; the first is the entry.
const HARNESS: [(&str, &str); 10] = [
    ("timer.py", include_str!("../../harness/timer.py")),
    ("confine.py", include_str!("../../harness/confine.py")),
    ("operands.py", include_str!("../../harness/operands.py")),
    ("host.py", include_str!("../../harness/host.py")),
    ("gpu.py", include_str!("../../harness/gpu.py")),
    ("cupti.py", include_str!("../../harness/cupti.py")),
    ("memory.py", include_str!("../../harness/memory.py")),
    ("protocol.py", include_str!("../../harness/protocol.py")),
    ("protocol_bench.py", include_str!("../../harness/protocol_bench.py")),
    ("wire.py", include_str!("../../harness/wire.py")),
];
/// What only the process without a candidate gets.
const OF_BASELINES: [(&str, &str); 8] = [
    ("baselines.py", include_str!("../../harness/baselines.py")),
    ("cublaslt.py", include_str!("../../harness/cublaslt.py")),
    ("exactly.py", include_str!("../../harness/exactly.py")),
    ("layouts.py", include_str!("../../harness/layouts.py")),
    ("modes.py", include_str!("../../harness/modes.py")),
    ("own_errors.py", include_str!("../../harness/own_errors.py")),
    ("referee.py", include_str!("../../harness/referee.py")),
    ("sources.py", include_str!("../../harness/sources.py")),
];
/// A first import of torch from a cold disk.
const START: Duration = Duration::from_secs(180);
/// Compiling a reference twice, the second time with a search.
const PREPARE: Duration = Duration::from_secs(900);
/// A block, the outputs of one, a comparison in float64.
const ANSWER: Duration = Duration::from_secs(60);
/// Answers that took this long are logged.
const WORTH_A_LINE: Duration = Duration::from_millis(50);
/// Lines of the error output that are kept.
const LAST_WORDS: usize = 12;

/// What a process is asked to play.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Interpreter and environment.
    pub(super) line: CommandLine,
    /// Its role, and what it is given.
    pub(super) job: Job,
    /// How long a block may take.
    pub(super) patience: Duration,
    /// How the process comes into being.
    pub(super) start: Start,
}

impl Part {
    /// A part with the usual patience, in a program of its own.
    pub(super) fn new(line: CommandLine, job: Job) -> Self {
        Self { line, job, patience: ANSWER, start: Start::Exec }
    }

    /// The same for a Python that is known to have torch.
    pub(super) fn in_python(python: &PythonRuntime, line: CommandLine, job: Job) -> Self {
        Self { start: python.start(), ..Self::new(line, job) }
    }
}

/// The process, started when it is first needed, and again after it was stopped.
pub(super) struct PythonTimer {
    part: Part,
    /// The harness, written for this process alone.
    folder: TempDir,
    /// All that a candidate can write to, where the system can confine it.
    home: Option<TempDir>,
    running: Option<Running>,
}

struct Running {
    dialogue: Dialogue,
    nonce: String,
}

impl PythonTimer {
    /// A process that is not started.
    pub(super) fn new(part: Part) -> Result<Self, FileError> {
        let folder = harness(&part.job)?;
        Ok(Self { part, folder, home: confine::home()?, running: None })
    }

    /// Starts the process where it does not run; what it runs on. A missing device is no fault.
    pub(super) fn machine(&mut self) -> Result<Machine, Fault> {
        let since = Instant::now();
        let nonce = random::secret();
        let entry = self.folder.path().join(HARNESS[0].0);
        let line = self.part.line.clone().path(&entry);
        let mut job = self.part.job.clone();
        if let Job::Candidate(candidate) = &mut job {
            candidate.home = self.home.as_ref().map(|home| home.path().display().to_string());
        }
        let mut running =
            Running { dialogue: Dialogue::start_from(self.part.start, &line)?, nonce: nonce.clone() };
        running.dialogue.say(&Opening::line(&nonce, &job));
        let machine = running.answer(START, |answer| match answer {
            Answer::Machine(machine) => Some(machine),
            _ => None,
        })?;
        if machine.device.is_some() {
            running.answer(START, |answer| (answer == Answer::Open {}).then_some(()))?;
        }
        tracing::debug!(target: "bench", "{}: started in {}", role(&self.part.job), report::duration(since.elapsed()));
        self.running = Some(running);
        Ok(machine)
    }

    fn running(&mut self) -> Result<&mut Running, Fault> {
        if self.running.is_none() {
            self.machine()?;
        }
        self.running.as_mut().ok_or_else(|| Fault::Raised("the process is not running".to_owned()))
    }

    fn ask<T>(
        &mut self,
        request: &Request,
        within: Duration,
        wanted: impl FnOnce(Answer) -> Option<T>,
    ) -> Result<T, Fault> {
        let since = Instant::now();
        let running = self.running()?;
        running.dialogue.say(&protocol::line(request));
        let answer = running.answer(within, wanted);
        logged(&self.part.job, request, since.elapsed());
        if matches!(answer, Err(Fault::Gone { .. })) {
            self.running = None;
        }
        answer
    }
}

/// Logs an answer that took long enough to matter; blocks are many and short.
fn logged(job: &Job, request: &Request, took: Duration) {
    if took < WORTH_A_LINE {
        return;
    }
    let what = match request {
        Request::Begin { .. } => "took the case",
        Request::Prepare { .. } => "prepared its contenders",
        Request::Block(_) => "prepared a block",
        Request::Go {} => "ran a block",
        Request::Suspect {} => "looked at the outputs",
        Request::Give { .. } => "wrote outputs",
        Request::Judge { .. } => "compared outputs",
        Request::Trace { .. } => "traced calls",
        Request::Leave {} => "forgot the case",
    };
    tracing::debug!(target: "bench", "{}: {what} in {}", role(job), report::duration(took));
}

/// Who a process is, for the log.
fn role(job: &Job) -> &'static str {
    match job {
        Job::Baseline(_) => "the baselines",
        Job::Candidate(_) => "the kernel",
    }
}

/// The files of the harness that a role needs.
fn harness(job: &Job) -> Result<TempDir, FileError> {
    let folder = files::scratch()?;
    let more: &[_] = if matches!(job, Job::Baseline(_)) { &OF_BASELINES } else { &[] };
    for (name, text) in HARNESS.iter().chain(more) {
        files::write(&folder.path().join(name), text)?;
    }
    Ok(folder)
}

impl Running {
    /// The next line of the process itself; its exceptions are faults.
    fn answer<T>(&mut self, within: Duration, wanted: impl FnOnce(Answer) -> Option<T>) -> Result<T, Fault> {
        let until = Instant::now() + within;
        loop {
            match self.dialogue.hear(until.saturating_duration_since(Instant::now()))? {
                DialogueEvent::Line(text) => {
                    if let Some(heard) = protocol::fields(&text, &self.nonce) {
                        return read(heard, wanted)
                            .unwrap_or_else(|reason| Err(self.gone(&format!("gave no answer: {reason}"))));
                    }
                }
                DialogueEvent::Silence => {
                    return Err(self.gone(&format!("did not answer within {} s", within.as_secs())));
                }
                // ^C reaches the whole group of a terminal, so the child may end before this process notices.
                DialogueEvent::Ended(Ending::Signal(2)) => return Err(ProcessError::Interrupted.into()),
                DialogueEvent::Ended(ending) => return Err(self.gone(&ending.to_string())),
            }
        }
    }

    fn gone(&mut self, ending: &str) -> Fault {
        let words = self.dialogue.stderr_end();
        let lines: Vec<&str> = words.lines().collect();
        Fault::Gone {
            ending: ending.to_owned(),
            output: lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n"),
        }
    }
}

/// A line of the measuring process that is not the answer to the request.
#[derive(Debug, thiserror::Error)]
enum UnexpectedAnswer {
    /// Not an answer of this version.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    /// An answer to another request.
    #[error("`{answered}` answers another request")]
    Other { answered: String },
}

/// The answer in the fields of a line, if it is the one that is waited for.
fn read<T>(
    fields: serde_json::Value,
    wanted: impl FnOnce(Answer) -> Option<T>,
) -> Result<Result<T, Fault>, UnexpectedAnswer> {
    match serde_json::from_value(fields)? {
        Answer::Raised { reason } => Ok(Err(Fault::Raised(reason))),
        answer => {
            let answered = format!("{answer:?}");
            wanted(answer).map(Ok).ok_or(UnexpectedAnswer::Other { answered })
        }
    }
}

impl From<bench::TracedCalls> for Cupti {
    fn from(traced: bench::TracedCalls) -> Self {
        let bench::TracedCalls { calls, busy, streams, kernels, reason } = traced;
        let launched = |bench::TracedKernel { name, launches, seconds }| Launched { name, launches, seconds };
        Self { calls, busy, streams, kernels: kernels.into_iter().map(launched).collect(), reason }
    }
}

impl Timer for PythonTimer {
    fn begin(&mut self, case: &Case) -> Result<Need, Fault> {
        let request = Request::Begin { case: TimedCase::from(case) };
        self.ask(&request, ANSWER, |answer| match answer {
            Answer::Begun(need) => Some(need),
            _ => None,
        })
    }

    fn prepare(&mut self, seed: u64) -> Result<Prepared, Fault> {
        self.ask(&Request::Prepare { seed }, PREPARE, |answer| match answer {
            Answer::Prepared(prepared) => Some(prepared),
            _ => None,
        })
    }

    fn block(&mut self, ask: &Ask<'_>) -> Result<Block, Fault> {
        let request = Request::Block(BlockRequest {
            contender: ask.contender.map(str::to_owned),
            regime: ask.regime,
            calls: ask.calls,
            first: ask.first,
            seed: ask.contents,
            edits: ask.edits.to_vec(),
            aim: ask.aim,
        });
        let patience = self.part.patience;
        self.ask(&request, patience, |answer| (answer == Answer::Ready {}).then_some(()))?;
        let since = Instant::now();
        let done = self.ask(&Request::Go {}, patience, |answer| match answer {
            Answer::Done(done) => Some(done),
            _ => None,
        })?;
        let outside = since.elapsed().as_secs_f64();
        Ok(Block { device: done.device, inside: done.inside, outside, kept: done.kept })
    }

    fn suspects(&mut self) -> Result<Vec<u64>, Fault> {
        self.ask(&Request::Suspect {}, ANSWER, |answer| match answer {
            Answer::Suspected { places } => Some(places),
            _ => None,
        })
    }

    fn give(&mut self, places: &[u64], files: &[PathBuf]) -> Result<Option<String>, Fault> {
        let files = files.iter().map(|file| file.display().to_string()).collect();
        let request = Request::Give { places: places.to_vec(), files };
        self.ask(&request, ANSWER, |answer| match answer {
            Answer::Given { wrong } => Some(wrong),
            _ => None,
        })
    }

    fn leave(&mut self) -> Result<(), Fault> {
        if self.running.is_some() {
            self.ask(&Request::Leave {}, ANSWER, |answer| (answer == Answer::Left {}).then_some(()))?;
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.running = None;
    }

    fn renew(&mut self) -> Result<(), FileError> {
        self.stop();
        (self.folder, self.home) = (harness(&self.part.job)?, confine::home()?);
        Ok(())
    }

    fn processor_seconds(&self) -> Option<f64> {
        machine::processor_seconds(self.running.as_ref()?.dialogue.id())
    }
}

impl CallTracer for PythonTimer {
    fn trace(&mut self, case: &Case, seed: u64) -> Result<Cupti, Fault> {
        let request = Request::Trace { case: TimedCase::from(case), seed };
        self.ask(&request, PREPARE, |answer| match answer {
            Answer::Traced(traced) => Some(traced.into()),
            _ => None,
        })
    }
}

impl Referee for PythonTimer {
    fn judge(&mut self, calls: &[TimedCall]) -> Result<Option<String>, Fault> {
        let calls = calls.iter().map(|call| bench::TimedCall {
            file: call.file.display().to_string(),
            seed: call.contents,
            number: call.number,
            edits: call.edits.clone(),
        });
        self.ask(&Request::Judge { calls: calls.collect() }, PREPARE, |answer| match answer {
            Answer::Judged { wrong } => Some(wrong),
            _ => None,
        })
    }
}

/// The interpreter of both processes, with what they share.
pub(super) fn command(line: CommandLine, cache: &Path, temporary: &Path) -> CommandLine {
    line.cwd(temporary)
        // What torch.compile makes is kept, so that a second measurement does not compile again; its worker processes
        // would take processor time from the contenders.
        .env("TORCHINDUCTOR_CACHE_DIR", cache.join("inductor").display().to_string())
        .env("TORCHINDUCTOR_COMPILE_THREADS", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(answer: Answer) -> Option<bench::Done> {
        match answer {
            Answer::Done(done) => Some(done),
            _ => None,
        }
    }

    #[test]
    fn a_line_needs_the_nonce() {
        let text = r#"{"nonce":"right","event":"done","device":1e-3,"inside":2e-3,"kept":null}"#;
        let found = read(protocol::fields(text, "right").unwrap(), done).unwrap().unwrap();
        assert_eq!((found.device, found.inside, found.kept), (1e-3, 2e-3, None));
        for (text, nonce) in [
            (text, "other"),
            ("hello from a library", "right"),
            (r#"{"nonce":["right"],"event":"done"}"#, "right"),
            (r#"{"event":"done"}"#, "right"),
        ] {
            assert_eq!(protocol::fields(text, nonce), None);
        }
    }

    #[test]
    fn another_answer_is_none() {
        let heard = |text: &str| read(protocol::fields(text, "n").unwrap(), done);
        let other = heard(r#"{"nonce":"n","event":"ready"}"#).unwrap_err();
        assert!(other.to_string().contains("answers another request"), "{other}");
        let missing = heard(r#"{"nonce":"n","event":"done","device":1.0,"inside":1.0,"kept":[],"more":1}"#);
        assert!(missing.unwrap_err().to_string().contains("unknown field `more`"));
        let raised = heard(r#"{"nonce":"n","event":"raised","reason":"ValueError: no"}"#).unwrap();
        assert!(matches!(raised, Err(Fault::Raised(reason)) if reason == "ValueError: no"));
    }

    #[test]
    fn what_the_harness_imports_is_given_to_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("harness");
        for (parts, more) in [(HARNESS.as_slice(), OF_BASELINES.as_slice())] {
            let names: Vec<_> =
                parts.iter().chain(more).map(|(name, _)| name.trim_end_matches(".py")).collect();
            for (name, text) in parts.iter().chain(more) {
                let imported = text.lines().filter_map(|line| {
                    let mut words = line.trim().split(' ');
                    matches!(words.next(), Some("from" | "import")).then(|| words.next())?
                });
                for module in imported.filter(|module| files::exists(&folder.join(format!("{module}.py")))) {
                    assert!(names.contains(&module), "{name} imports {module}");
                }
            }
        }
        // The candidate's process has no comparison and no reference in it.
        assert!(HARNESS.iter().all(|(_, text)| !text.contains("import referee")));
    }

    /// A harness in shell, for what a real one never does.
    fn scripted(script: &str) -> PythonTimer {
        let line = CommandLine::new("sh").args(["-c", script]);
        let job = Job::Candidate(bench::KernelJob {
            device: "cpu".to_owned(),
            threads: 1,
            package: String::new(),
            id: String::new(),
            call: String::new(),
            outputs_dir: String::new(),
            home: None,
        });
        let part = Part { patience: Duration::from_millis(300), ..Part::new(line, job) };
        PythonTimer::new(part).unwrap()
    }

    const GREET: &str = r#"read -r job; nonce=${job#*'"nonce":"'}; nonce=${nonce%%'"'*}
        say() { echo "{\"nonce\":\"$nonce\",\"event\":$1}"; }
        say '"machine","torch":"2","python":"3","threads":1,"device":"cpu","reason":null,"l2":null'; say '"open"';"#;

    fn host(timer: &mut PythonTimer) -> Result<Block, Fault> {
        timer.block(&Ask {
            contender: Some("kernel"),
            regime: super::super::contender::Regime::Host,
            calls: 1,
            first: 1,
            contents: 7,
            edits: &[],
            aim: super::super::contender::Aim::Sample,
        })
    }

    #[test]
    fn a_block_is_timed_from_outside() {
        let script = format!(
            "{GREET} read -r ask; say '\"ready\"'; read -r go; echo PASS; say '\"done\",\"device\":0.5,\"inside\":0.5,\"kept\":[3]'; read -r end"
        );
        let block = host(&mut scripted(&script)).unwrap();
        assert_eq!((block.device, block.kept), (0.5, Some(vec![3])));
        assert!(block.outside < 0.5, "{}", block.outside);
    }

    #[test]
    fn a_renewed_process_has_another_number_and_files_of_its_own() {
        let mut timer = scripted(&format!("{GREET} read -r end"));
        let mut seen = |renew: bool| {
            if renew {
                timer.renew().unwrap();
            }
            timer.machine().unwrap();
            (timer.running.as_ref().unwrap().dialogue.id(), timer.folder.path().to_owned())
        };
        let (first, second) = (seen(false), seen(true));
        assert!(first.0 != second.0 && first.1 != second.1, "{first:?} {second:?}");
        assert!(!files::exists(&first.1) && files::exists(&second.1.join("timer.py")));
    }

    #[test]
    fn a_process_that_hangs_or_dies_is_told() {
        let hangs = format!("{GREET} read -r ask; read -r never; sleep 60");
        let Err(Fault::Gone { ending, .. }) = host(&mut scripted(&hangs)) else { panic!("answered") };
        assert!(ending.starts_with("did not answer within"), "{ending}");
        let dies = format!("{GREET} read -r ask; echo last words >&2; exit 3");
        let Err(Fault::Gone { ending, output }) = host(&mut scripted(&dies)) else { panic!("answered") };
        assert_eq!((ending.as_str(), output.as_str()), ("returned 3", "last words"));
    }
}

#[cfg(test)]
#[path = "python_tests.rs"]
mod real;
