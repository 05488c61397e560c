//! A worker as whoever asks it sees it: it answers, refuses, dies or hangs, and the next question finds a new one.
//!
//! Owns: the life of the process. Never: repeats a question; what was in a worker is gone with it.

use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;

use super::wire::{Answer, Op, OperationError, Reply};
use crate::base::env;
use crate::base::process::{Dialogue, DialogueEvent, Ending, ProcessError};

/// The role of the worker on the command line of this program.
pub(crate) const ROLE: &str = "gpu";

/// One worker of a GPU.
pub(crate) struct Gpu {
    line: CommandLine,
    process: Option<Dialogue>,
    /// How many processes were started.
    started: u32,
    /// How long a process may take to end by itself before it is killed.
    grace: Duration,
    /// How the last one ended that did so.
    ended: Option<Ending>,
    /// How long the last one took to end.
    ending: Duration,
    /// How long all questions took so far.
    asked: Duration,
}

/// Why a request was not answered in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The operation of this place was refused; `fatal` says whether the worker is gone.
    Refused { at: usize, trouble: OperationError },
    /// Nothing was heard for so long; the worker was killed.
    Hung(Duration),
    /// The process ended by itself, with these last words.
    Died { ending: Ending, said: String },
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { trouble, .. } if trouble.name.is_empty() => write!(out, "{}", trouble.text),
            Self::Refused { trouble, .. } => write!(out, "{} ({})", trouble.text, trouble.name),
            Self::Hung(after) => write!(out, "did not end within {:.1} s", after.as_secs_f64()),
            Self::Died { ending, said } if said.trim().is_empty() => write!(out, "the worker {ending}"),
            Self::Died { ending, said } => {
                let last = said.trim().lines().last().unwrap_or_default();
                write!(out, "the worker {ending}: {last}")
            }
        }
    }
}

impl std::error::Error for Failure {}

/// Why no GPU can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoDevice {
    /// The machine has none.
    #[error("no NVIDIA GPU here")]
    Absent,
    /// The worker answers something else than was asked.
    #[error("the worker did not report its device")]
    Undescribed,
    /// The worker failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// This program as a worker.
fn own_line() -> CommandLine {
    CommandLine::new(env::own_program()).args(["--worker", ROLE])
}

impl Gpu {
    /// A worker that is started when it is first asked.
    pub(crate) fn new() -> Self {
        Self::run_by(own_line())
    }

    /// A worker of the device of this UUID.
    pub(crate) fn with_uuid(uuid: &str) -> Self {
        Self::run_by(own_line().env(env::VISIBLE_DEVICES, uuid))
    }

    /// A worker under another program, such as a sanitizer, which has something to do when the worker has ended: it has
    /// so long for it.
    pub(crate) fn within(wrap: impl FnOnce(CommandLine) -> CommandLine, grace: Duration) -> Self {
        Self { grace, ..Self::run_by(wrap(own_line())) }
    }

    fn run_by(line: CommandLine) -> Self {
        let (grace, ending, asked) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Self { line, process: None, started: 0, grace, ended: None, ending, asked }
    }

    /// How many processes were started so far; a higher number than before means that everything in it is gone.
    pub(crate) fn generation(&self) -> u32 {
        self.started
    }

    /// Whether a process runs, so that what it was told before is still there.
    pub(crate) fn lives(&self) -> bool {
        self.process.is_some()
    }

    /// Ends the process, if there is one.
    pub(crate) fn end(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let since = Instant::now();
        process.close();
        while !self.grace.is_zero() {
            match process.hear(self.grace) {
                Ok(DialogueEvent::Line(_)) => {}
                Ok(DialogueEvent::Ended(ending)) => {
                    self.ended = Some(ending);
                    break;
                }
                Ok(DialogueEvent::Silence) | Err(_) => break,
            }
        }
        drop(process);
        self.ending = since.elapsed();
    }

    /// How the last process ended, where it was given time to do so by itself and took no more.
    pub(crate) fn ended(&self) -> Option<Ending> {
        self.ended
    }

    /// How long whoever asked waited for answers so far.
    pub(crate) fn request_time(&self) -> Duration {
        self.asked
    }

    /// How long the last process that was ended took to be gone: with a kernel that hangs, the driver has work to do.
    pub(crate) fn ending(&self) -> Duration {
        self.ending
    }

    /// Does all of this in order; one answer for each.
    ///
    /// # Errors
    /// The process cannot be started, or the user pressed ctrl-C. What goes wrong on the device is the inner error.
    pub(crate) fn ask(
        &mut self,
        ops: &[Op],
        within: Duration,
    ) -> Result<Result<Vec<Answer>, Failure>, ProcessError> {
        let process = match &mut self.process {
            Some(process) => process,
            none => {
                self.started += 1;
                none.insert(Dialogue::start(&self.line)?)
            }
        };
        let since = Instant::now();
        process.say(&serde_json::to_string(ops).unwrap_or_default());
        let heard = process.hear(within)?;
        self.asked += since.elapsed();
        let failure = match heard {
            DialogueEvent::Line(line) => match serde_json::from_str::<Reply>(&line) {
                Ok(Reply { answers, trouble: None }) => return Ok(Ok(answers)),
                Ok(Reply { answers, trouble: Some(trouble) }) => {
                    let lost = trouble.fatal;
                    let failure = Failure::Refused { at: answers.len(), trouble };
                    if !lost {
                        return Ok(Err(failure));
                    }
                    failure
                }
                Err(_) => Failure::Died { ending: Ending::Exit(0), said: line },
            },
            DialogueEvent::Silence => Failure::Hung(within),
            DialogueEvent::Ended(ending) => Failure::Died { ending, said: process.stderr_end() },
        };
        self.end();
        Ok(Err(failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::wire::Origin;

    /// A worker made of a shell script that reads one line for each answer.
    fn fake(script: &str) -> Gpu {
        Gpu::run_by(CommandLine::new("sh").args(["-c", script]))
    }

    const SOON: Duration = Duration::from_secs(20);
    const DONE: &str = r#"{"answers":[{"is":"done"}],"trouble":null}"#;

    #[test]
    fn answers_come_back() {
        let mut gpu = fake(&format!("while read -r line; do echo '{DONE}'; done"));
        for _ in 0..2 {
            assert_eq!(gpu.ask(&[Op::Settle], SOON).unwrap(), Ok(vec![Answer::Done]));
        }
        assert_eq!((gpu.generation(), gpu.lives()), (1, true));
    }

    #[test]
    fn a_hung_worker_is_killed_and_the_next_question_finds_a_new_one() {
        let mut gpu =
            fake(&format!("read -r line; case $line in *settle*) sleep 600;; esac; echo '{DONE}'; cat"));
        let within = Duration::from_millis(100);
        assert_eq!(gpu.ask(&[Op::Settle], within).unwrap(), Err(Failure::Hung(within)));
        assert!(!gpu.lives());
        assert_eq!(gpu.ask(&[Op::Free { buffer: 1 }], SOON).unwrap(), Ok(vec![Answer::Done]));
        assert_eq!(gpu.generation(), 2);
    }

    #[test]
    fn a_worker_under_a_tool_has_time_to_end_by_itself() {
        let folder = crate::base::files::scratch().unwrap();
        let log = folder.path().join("log");
        let script = format!(
            "read -r line; echo '{DONE}'; cat; sleep 0.05; echo found > '{}'; exit 86",
            log.display()
        );
        for (grace, ending) in [(SOON, Some(Ending::Exit(86))), (Duration::ZERO, None)] {
            crate::base::files::write(&log, "").unwrap();
            let mut gpu = Gpu::within(|_| CommandLine::new("sh").args(["-c", &script]), grace);
            gpu.ask(&[Op::Settle], SOON).unwrap().unwrap();
            gpu.end();
            assert_eq!(gpu.ended(), ending);
            assert_eq!(crate::base::files::read_text(&log).unwrap().is_empty(), ending.is_none());
        }
    }

    #[test]
    fn how_long_a_worker_took_to_end_is_known_after_it() {
        let mut gpu = fake(&format!("read -r line; echo '{DONE}'; cat"));
        gpu.end();
        assert_eq!(gpu.ending(), Duration::ZERO, "there was none");
        assert_eq!(gpu.ask(&[Op::Settle], SOON).unwrap(), Ok(vec![Answer::Done]));
        gpu.end();
        let ending = gpu.ending();
        assert!(ending > Duration::ZERO && !gpu.lives());
        gpu.end();
        assert_eq!(gpu.ending(), ending, "that of the last one that there was");
    }

    #[test]
    fn a_worker_that_dies_is_told_with_its_last_words() {
        let mut gpu = fake("read -r line; echo 'out of luck' >&2; kill -SEGV $$");
        let failure = gpu.ask(&[Op::About], SOON).unwrap().unwrap_err();
        assert_eq!(failure.to_string(), "the worker was killed by SIGSEGV (bad memory access): out of luck");
    }

    #[test]
    fn a_refusal_keeps_the_worker_and_a_lost_context_does_not() {
        let refused = |fatal| {
            let trouble = OperationError {
                from: Origin::Driver,
                code: 700,
                name: "CUDA_ERROR_ILLEGAL_ADDRESS".to_owned(),
                text: "an illegal memory access was encountered".to_owned(),
                fatal,
            };
            let reply = Reply { answers: vec![Answer::Done], trouble: Some(trouble) };
            let line = serde_json::to_string(&reply).unwrap();
            let mut gpu = fake(&format!("while read -r line; do echo '{line}'; done"));
            let failure = gpu.ask(&[Op::Settle, Op::Settle], SOON).unwrap().unwrap_err();
            assert!(matches!(failure, Failure::Refused { at: 1, .. }), "{failure:?}");
            gpu.lives()
        };
        assert!(refused(false) && !refused(true));
    }
}
