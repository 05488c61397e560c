//! A Python process that times: `harness/timer.py`, either with the package or with the reference, never with both.
//!
//! Owns: what a process is given, its requests and answers, how long each may take, this program's clock round a block.
//! Never: believes a line without the nonce; what a kernel prints is not for us. Decides nothing about samples.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;
use kernel_plan::spec::op::Case;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::base::files::{self, FileError};
use crate::base::process::{Dialogue, Ending, Heard, ProcessError, Start};
use crate::base::random;
use crate::toolchain::PythonRuntime;

use super::contender::{Ask, Block, Fault, Need, Prepared, Referee, TimedCall, Timer, Traced};
use super::cupti::Cupti;
use super::machine;

/// What both roles are made of; the first is the entry.
const HARNESS: [(&str, &str); 6] = [
    ("timer.py", include_str!("../../harness/timer.py")),
    ("operands.py", include_str!("../../harness/operands.py")),
    ("host.py", include_str!("../../harness/host.py")),
    ("gpu.py", include_str!("../../harness/gpu.py")),
    ("cupti.py", include_str!("../../harness/cupti.py")),
    ("memory.py", include_str!("../../harness/memory.py")),
];
/// What only the process without a candidate gets.
const OF_BASELINES: [(&str, &str); 3] = [
    ("baselines.py", include_str!("../../harness/baselines.py")),
    ("cublaslt.py", include_str!("../../harness/cublaslt.py")),
    ("referee.py", include_str!("../../harness/referee.py")),
];
/// A first import of torch from a cold disk.
const START: Duration = Duration::from_secs(180);
/// Compiling a reference twice, the second time with a search.
const PREPARE: Duration = Duration::from_secs(900);
/// A block, the outputs of one, a comparison in float64.
const ANSWER: Duration = Duration::from_secs(60);
/// Lines of the error output that are kept.
const LAST_WORDS: usize = 12;

/// What a process is asked to play.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// `baseline` or `candidate`.
    pub(super) role: &'static str,
    /// Interpreter and environment.
    pub(super) line: CommandLine,
    /// What it is told first, but for nonce and role.
    pub(super) job: Value,
    /// How long a block may take.
    pub(super) patience: Duration,
    /// How the process comes into being.
    pub(super) start: Start,
}

impl Part {
    /// A part with the usual patience, in a program of its own.
    pub(super) fn new(role: &'static str, line: CommandLine, job: Value) -> Self {
        Self { role, line, job, patience: ANSWER, start: Start::Exec }
    }

    /// The same for a Python that is known to have torch.
    pub(super) fn of(python: &PythonRuntime, role: &'static str, line: CommandLine, job: Value) -> Self {
        Self { start: python.start(), ..Self::new(role, line, job) }
    }
}

/// What the figures belong to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Machine {
    pub(super) torch: String,
    pub(super) python: String,
    pub(super) threads: u64,
    /// `cpu` or the GPU's name; absent when the device asked for is not here.
    pub(super) device: Option<String>,
    /// Why it is absent.
    pub(super) reason: Option<String>,
    /// Bytes of the GPU's L2 cache.
    #[serde(default)]
    pub(super) l2: Option<u64>,
}

/// The process, started when it is first needed, and again after it was stopped.
pub(super) struct PythonTimer {
    part: Part,
    /// The harness, written for this process alone.
    folder: TempDir,
    running: Option<Running>,
}

struct Running {
    dialogue: Dialogue,
    nonce: String,
}

impl PythonTimer {
    /// A process that is not started.
    pub(super) fn new(part: Part) -> Result<Self, FileError> {
        let folder = harness(part.role)?;
        Ok(Self { part, folder, running: None })
    }

    /// Starts the process where it does not run; what it runs on. A missing device is no fault.
    pub(super) fn machine(&mut self) -> Result<Machine, Fault> {
        let nonce = random::secret();
        let entry = self.folder.path().join(HARNESS[0].0);
        let line = self.part.line.clone().path(&entry);
        let mut running =
            Running { dialogue: Dialogue::start_from(self.part.start, &line)?, nonce: nonce.clone() };
        let mut job = self.part.job.clone();
        job["nonce"] = json!(nonce);
        job["role"] = json!(self.part.role);
        running.dialogue.say(&job.to_string());
        let machine: Machine = running.answer("machine", START)?;
        if machine.device.is_some() {
            running.answer::<Empty>("open", START)?;
        }
        self.running = Some(running);
        Ok(machine)
    }

    fn running(&mut self) -> Result<&mut Running, Fault> {
        if self.running.is_none() {
            self.machine()?;
        }
        self.running.as_mut().ok_or_else(|| Fault::Raised("the process does not run".to_owned()))
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        request: &Value,
        event: &str,
        within: Duration,
    ) -> Result<T, Fault> {
        let running = self.running()?;
        running.dialogue.say(&request.to_string());
        let answer = running.answer(event, within);
        if matches!(answer, Err(Fault::Gone { .. })) {
            self.running = None;
        }
        answer
    }
}

/// The files of the harness that a role needs.
fn harness(role: &str) -> Result<TempDir, FileError> {
    let folder = files::scratch()?;
    let more: &[_] = if role == "baseline" { &OF_BASELINES } else { &[] };
    for (name, text) in HARNESS.iter().chain(more) {
        files::write(&folder.path().join(name), text)?;
    }
    Ok(folder)
}

/// An answer of which nothing but its coming matters.
#[derive(Debug, Deserialize)]
struct Empty {}

impl Running {
    /// The next line of the process itself; its exceptions are faults.
    fn answer<T: DeserializeOwned>(&mut self, event: &str, within: Duration) -> Result<T, Fault> {
        let until = Instant::now() + within;
        loop {
            match self.dialogue.hear(until.saturating_duration_since(Instant::now()))? {
                Heard::Line(text) => {
                    if let Some(heard) = parse(&text, &self.nonce) {
                        return heard.read(event).unwrap_or_else(|| Err(self.gone("said what is no answer")));
                    }
                }
                Heard::Silence => {
                    return Err(self.gone(&format!("did not answer within {} s", within.as_secs())));
                }
                // ^C reaches the whole group of a terminal, so the child may end before this process notices.
                Heard::Ended(Ending::Signal(2)) => return Err(ProcessError::Interrupted.into()),
                Heard::Ended(ending) => return Err(self.gone(&ending.to_string())),
            }
        }
    }

    fn gone(&mut self, ending: &str) -> Fault {
        let words = self.dialogue.said();
        let lines: Vec<&str> = words.lines().collect();
        Fault::Gone {
            ending: ending.to_owned(),
            output: lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n"),
        }
    }
}

/// A line with the right nonce.
#[derive(Debug, PartialEq)]
struct Event {
    name: String,
    fields: Value,
}

impl Event {
    /// What the event says, when it is the one that is waited for; `None` when it is no answer.
    fn read<T: DeserializeOwned>(self, wanted: &str) -> Option<Result<T, Fault>> {
        if self.name == "raised" {
            return Some(Err(Fault::Raised(self.fields.get("reason")?.as_str()?.to_owned())));
        }
        if self.name != wanted {
            return None;
        }
        serde_json::from_value(self.fields).ok().map(Ok)
    }
}

/// The line's event; `None` for a line of somebody else, or without the nonce.
fn parse(text: &str, nonce: &str) -> Option<Event> {
    let Value::Object(mut fields) = serde_json::from_str(text).ok()? else { return None };
    if fields.remove("nonce")?.as_str()? != nonce {
        return None;
    }
    let name = fields.remove("event")?.as_str()?.to_owned();
    Some(Event { name, fields: Value::Object(fields) })
}

#[derive(Debug, Deserialize)]
struct Done {
    device: f64,
    inside: f64,
    kept: Option<Vec<u64>>,
}

#[derive(Debug, Deserialize)]
struct Suspected {
    places: Vec<u64>,
}

#[derive(Debug, Deserialize)]
struct Wrong {
    wrong: Option<String>,
}

impl Timer for PythonTimer {
    fn begin(&mut self, case: &Case) -> Result<Need, Fault> {
        self.ask(&json!({ "do": "begin", "case": case }), "begun", ANSWER)
    }

    fn prepare(&mut self, seed: u64) -> Result<Prepared, Fault> {
        self.ask(&json!({ "do": "prepare", "seed": seed }), "prepared", PREPARE)
    }

    fn block(&mut self, ask: &Ask<'_>) -> Result<Block, Fault> {
        let mut request = json!(ask);
        request["do"] = json!("block");
        self.ask::<Empty>(&request, "ready", self.part.patience)?;
        let since = Instant::now();
        let done: Done = self.ask(&json!({ "do": "go" }), "done", self.part.patience)?;
        let outside = since.elapsed().as_secs_f64();
        Ok(Block { device: done.device, inside: done.inside, outside, kept: done.kept })
    }

    fn suspects(&mut self) -> Result<Vec<u64>, Fault> {
        Ok(self.ask::<Suspected>(&json!({ "do": "suspect" }), "suspected", ANSWER)?.places)
    }

    fn give(&mut self, places: &[u64], files: &[PathBuf]) -> Result<Option<String>, Fault> {
        let request = json!({ "do": "give", "places": places, "files": files });
        Ok(self.ask::<Wrong>(&request, "given", ANSWER)?.wrong)
    }

    fn leave(&mut self) -> Result<(), Fault> {
        if self.running.is_some() {
            self.ask::<Empty>(&json!({ "do": "leave" }), "left", ANSWER)?;
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.running = None;
    }

    fn renew(&mut self) -> Result<(), FileError> {
        self.stop();
        self.folder = harness(self.part.role)?;
        Ok(())
    }

    fn processor_seconds(&self) -> Option<f64> {
        machine::processor_seconds(self.running.as_ref()?.dialogue.id())
    }
}

impl Traced for PythonTimer {
    fn trace(&mut self, case: &Case, seed: u64) -> Result<Cupti, Fault> {
        self.ask(&json!({ "do": "trace", "case": case, "seed": seed }), "traced", PREPARE)
    }
}

impl Referee for PythonTimer {
    fn judge(&mut self, calls: &[TimedCall]) -> Result<Option<String>, Fault> {
        Ok(self.ask::<Wrong>(&json!({ "do": "judge", "calls": calls }), "judged", PREPARE)?.wrong)
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

    #[test]
    fn a_line_needs_the_nonce() {
        let text = r#"{"nonce":"right","event":"done","device":1e-3,"inside":2e-3,"kept":null}"#;
        let done: Done = parse(text, "right").unwrap().read("done").unwrap().unwrap();
        assert_eq!((done.device, done.inside, done.kept), (1e-3, 2e-3, None));
        for (text, nonce) in [
            (text, "other"),
            ("hello from a library", "right"),
            (r#"{"nonce":["right"],"event":"done"}"#, "right"),
            (r#"{"nonce":"right"}"#, "right"),
        ] {
            assert_eq!(parse(text, nonce), None);
        }
    }

    #[test]
    fn another_answer_is_none() {
        let parsed = || parse(r#"{"nonce":"n","event":"ready"}"#, "n").unwrap();
        assert!(parsed().read::<Done>("done").is_none());
        assert!(parsed().read::<Done>("ready").is_none());
        let raised = parse(r#"{"nonce":"n","event":"raised","reason":"ValueError: no"}"#, "n").unwrap();
        assert!(
            matches!(raised.read::<Done>("done"), Some(Err(Fault::Raised(reason))) if reason == "ValueError: no")
        );
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
        let part = Part { patience: Duration::from_millis(300), ..Part::new("candidate", line, json!({})) };
        PythonTimer::new(part).unwrap()
    }

    const GREET: &str = r#"read -r job; nonce=${job#*'"nonce":"'}; nonce=${nonce%%'"'*}
        say() { echo "{\"nonce\":\"$nonce\",\"event\":$1}"; }
        say '"machine","torch":"2","python":"3","threads":1,"device":"cpu","reason":null'; say '"open"';"#;

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
