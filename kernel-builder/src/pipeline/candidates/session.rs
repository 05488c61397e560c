//! One session of an agent: from a candidate that is its parent to what it leaves behind.
//!
//! Owns: the life of the agent's process and of its tools. Never: believes its exit code: only files and verdicts count.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::agent::lineage::{CandidateStatus, Maker};
use crate::agent::program::{AgentReport, Program, Words};
use crate::base::process::{self, Ending, Limits};
use crate::base::socket::Listener;
use crate::base::{env, files, secrets};
use crate::exit::Failure;
use crate::mcp;
use crate::mcp::{Submit, Try};
use crate::pipeline::project::kernel;

use super::cell::Cell;
use super::desk::Desk;
use super::serve::{Host, serve};
use super::task_text::{self, HandInMethod, PROMPT};

/// Bytes that an agent may print.
const OUTPUT: usize = 64 << 20;
/// How often the server of its tools looks whether it has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Who is started, and with what.
pub(crate) struct Plan {
    /// The agent's name.
    pub(crate) name: String,
    /// What is known of it.
    pub(crate) agent: Program,
    /// Its program.
    pub(crate) program: PathBuf,
    /// What it says of its version.
    pub(crate) version: Option<String>,
    /// The model, if one was named.
    pub(crate) model: Option<String>,
    /// Variables of the environment that it gets, with their values.
    pub(crate) passed: BTreeMap<String, String>,
    /// The variable with its key, and where its model is.
    pub(crate) key: String,
    /// See `key`.
    pub(crate) address: String,
}

/// What may still be spent, as far as the agent tells what it spends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Allowance {
    /// Time.
    pub(crate) wall: Duration,
    /// Cost in US dollars.
    pub(crate) usd: Option<f64>,
    /// Tokens.
    pub(crate) tokens: Option<u64>,
}

impl Allowance {
    fn is_spent(&self, told: &AgentReport) -> bool {
        self.usd.zip(told.usd).is_some_and(|(most, usd)| usd >= most)
            || self.tokens.zip(told.tokens).is_some_and(|(most, tokens)| tokens >= most)
    }
}

/// Whether candidates are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judging {
    /// They are, on a GPU.
    Judged,
    /// They are compiled, and nothing is kept as better than another one.
    Compiled,
}

/// What came of a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionResult {
    /// Its name.
    pub(crate) session: String,
    /// The candidate that it started from.
    pub(crate) parent: String,
    /// How its process ended.
    pub(crate) ending: String,
    /// Seconds.
    pub(crate) seconds: f64,
    /// What its lines said.
    pub(crate) told: AgentReport,
    /// Candidates that it made.
    pub(crate) candidates: usize,
    /// Why the files that it left are no candidate, or a wrong one.
    pub(crate) refused: Option<String>,
    /// Whether one of them replaced the best.
    pub(crate) gained: bool,
}

/// The desk that sessions share: one at a time is served.
pub(crate) struct Shared<'a, 'b, 'c>(pub(crate) &'c Mutex<&'b mut Desk<'a>>);

impl<'a, 'b> Shared<'a, 'b, '_> {
    /// The desk, as this session's.
    pub(crate) fn desk(&self) -> MutexGuard<'_, &'b mut Desk<'a>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a session to its end.
///
/// # Errors
/// The judge itself fails, a file cannot be written, or ctrl-C.
pub(crate) fn run(
    shared: &Shared<'_, '_, '_>,
    plan: &Plan,
    number: usize,
    allowance: &Allowance,
    judging: Judging,
) -> Result<SessionResult, Failure> {
    let wall = allowance.wall;
    let cell = Cell::new()?;
    let session = format!("{}-{}", files::now(), number);
    let maker = Maker {
        agent: Some(plan.name.clone()),
        version: plan.version.clone(),
        model: plan.model.clone(),
        session: Some(session.clone()),
        ..Maker::default()
    };
    let parent =
        shared.desk().fill_workspace(&mut |name, text| cell.put(name, text), number, HandInMethod::Tools)?;
    let before = shared.desk().best_id();
    let listener = Listener::at(&cell.socket())
        .map_err(|cause| files::FileError::new("listen at", &cell.socket(), cause))?;
    let transcript = shared.desk().session_folder(&session).join("transcript.jsonl");
    let words = Words {
        prompt: PROMPT.to_owned(),
        config: cell.config().display().to_string(),
        home: cell.home().display().to_string(),
        kernelwright: env::own_program().display().to_string(),
        socket: cell.socket().display().to_string(),
        model: plan.model.clone(),
        key: plan.key.clone(),
        address: plan.address.clone(),
    };
    let started = plan.agent.started(&words, crate::base::confine::is_possible());
    let line = cell.line(&plan.program, &started, plan.passed.clone())?;
    let (over, served) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut told = AgentReport::default();
    let done = std::thread::scope(|scope| {
        scope.spawn(|| tools(shared, &listener, (&maker, &cell.work()), &over, &served));
        let mut unkept = None;
        let limits = Limits { output: OUTPUT, ..Limits::wall(wall) };
        let done = process::converse(&line, limits, &[], &mut |line| {
            plan.agent.hear(line, &mut told);
            let kept = files::append_line(&transcript, &secrets::without(line));
            unkept = unkept.take().or(kept.err());
            // One whose model does not answer would try again for minutes.
            let gives_up = told.unreachable.is_some() && !served.load(Ordering::SeqCst);
            if gives_up || allowance.is_spent(&told) {
                cell.mark().end();
            }
        });
        // Its children first: a tool that is asked now is asked by nobody.
        cell.mark().end();
        over.store(true, Ordering::SeqCst);
        unkept.map_or(Ok(done), Err)
    })??;
    if !done.stderr.is_empty() {
        let text = secrets::without(&done.stderr_text());
        files::write(&transcript.with_file_name("stderr.txt"), text)?;
    }
    let maker = Maker {
        model: told.model.clone().or(maker.model),
        seconds: Some(done.wall.as_secs_f64()),
        tokens: told.tokens,
        usd: told.usd,
        ..maker
    };
    let is_spent = allowance.is_spent(&told);
    let mut desk = shared.desk();
    desk.made_by(maker, &cell.work());
    let (candidates, refused) = desk.take_back(&cell.work(), &parent, &session, judging)?;
    Ok(SessionResult {
        session,
        parent,
        ending: match done.ending {
            _ if is_spent => "was stopped: its budget is spent".to_owned(),
            Ending::Deadline => format!("was stopped after {:.0} s", wall.as_secs_f64()),
            other => other.to_string(),
        },
        seconds: done.wall.as_secs_f64(),
        told,
        candidates,
        refused,
        gained: desk.best_id() != before,
    })
}

/// The desk as one agent has it.
struct Client<'c, 'a, 'b> {
    shared: &'c Shared<'a, 'b, 'c>,
    maker: &'c Maker,
    work: &'c Path,
    served: &'c AtomicBool,
}

impl Host for Client<'_, '_, '_> {
    fn ask(&mut self, tool: &str, arguments: Result<mcp::Tool, String>) -> mcp::Outcome {
        self.served.store(true, Ordering::SeqCst);
        let mut desk = self.shared.desk();
        desk.made_by(self.maker.clone(), self.work);
        desk.ask(tool, arguments)
    }

    fn work(&mut self) -> bool {
        // While another agent asks something there is no time for it.
        self.shared.0.try_lock().map_or(true, |mut desk| desk.work())
    }

    fn rest(&mut self) {
        self.shared.desk().rest();
    }
}

/// Serves the agent's tools until its session is over.
fn tools(
    shared: &Shared<'_, '_, '_>,
    listener: &Listener,
    (maker, work): (&Maker, &Path),
    over: &AtomicBool,
    served: &AtomicBool,
) {
    std::thread::scope(|scope| {
        while !over.load(Ordering::SeqCst) {
            let Some(mut client) = listener.accept(LOOK) else { continue };
            scope.spawn(move || {
                let Ok(lines) = client.lines(mcp::LONGEST) else { return };
                let mut next = |within: Duration| {
                    let until = std::time::Instant::now() + within;
                    loop {
                        match lines.next(LOOK) {
                            crate::base::input::Line::Silence if over.load(Ordering::SeqCst) => {
                                return crate::base::input::Line::End;
                            }
                            crate::base::input::Line::Silence if std::time::Instant::now() < until => {}
                            line => return line,
                        }
                    }
                };
                let mut host = Client { shared, maker, work, served };
                serve(&mut next, &mut host, &mut |line| client.say(line));
            });
        }
    });
}

impl Desk<'_> {
    /// Who hands in from now on, and the folder that it works in: what it names elsewhere is not read for it.
    fn made_by(&mut self, maker: Maker, work: &Path) {
        (self.maker, self.within) = (maker, Some(work.to_owned()));
    }

    /// The best candidate's id.
    pub(crate) fn best_id(&self) -> Option<String> {
        self.store.lineage().best().map(|entry| entry.id.clone())
    }

    fn session_folder(&self, session: &str) -> PathBuf {
        self.store.sessions().join(session)
    }

    /// Writes the task and the files of the candidate that a session starts from; gives its id.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn fill_workspace(
        &mut self,
        put: &mut dyn FnMut(&str, &str) -> Result<(), Failure>,
        number: usize,
        way: HandInMethod,
    ) -> Result<String, Failure> {
        self.store.refresh()?;
        let parent = self.store.lineage().parent(number).map(|entry| entry.id.clone()).unwrap_or_default();
        let loaded = self.store.load(&parent, &self.origin)?;
        let files = loaded.ok().and_then(|it| super::desk::files_of(&it, &self.origin.op_name, &it.op).ok());
        for (name, text) in files.unwrap_or_default() {
            put(&name, &text)?;
        }
        put(&self.origin.reference.0, &String::from_utf8_lossy(&self.origin.reference.1))?;
        let cases = self.cases()?;
        put("TASK.md", &task_text::text(&self.origin, &cases, self.store.lineage(), &parent, way))?;
        Ok(parent)
    }

    /// Takes the files that a session left and hands in its fastest candidate. Gives how many it made, and why the files are
    /// refused, if they are.
    ///
    /// # Errors
    /// The judge itself fails.
    pub(crate) fn take_back(
        &mut self,
        work: &Path,
        parent: &str,
        session: &str,
        judging: Judging,
    ) -> Result<(usize, Option<String>), Failure> {
        // What was tried during the session is answered from memory; what is no candidate is told in the lineage's refusals.
        let mut refused = None;
        let left = kernel::read(work, &self.origin)?;
        if !left.is_ok_and(|left| left.kernel.id() == parent) {
            let outcome = self.attempt(Try { dir: Some(work.to_owned()), ..Try::default() })?;
            let said = |key: &str| outcome.data[key].as_str().unwrap_or_default().to_owned();
            if outcome.failed || said("verdict") == "refused" {
                refused =
                    Some(format!("{}: {}", said("code"), said("text").lines().next().unwrap_or_default()));
            }
        }
        let of_session = |standing: Option<CandidateStatus>, desk: &Self| {
            let entries = desk.store.lineage().entries().iter();
            let own = entries.filter(|entry| entry.maker.session.as_deref() == Some(session));
            own.filter(|entry| standing.as_ref().is_none_or(|standing| entry.standing == *standing))
                .cloned()
                .collect::<Vec<_>>()
        };
        if judging == Judging::Judged
            && let Some(case) = self.cases()?.first()
        {
            let mut right = of_session(Some(CandidateStatus::Right), self);
            let seconds = |entry: &crate::agent::lineage::Entry| {
                entry.figures.get(&case.id).map_or(f64::INFINITY, |figure| figure.seconds)
            };
            right.sort_by(|one, other| seconds(one).total_cmp(&seconds(other)));
            if let Some(fastest) = right.first() {
                let _outcome = self.submit(&Submit { id: fastest.id.clone(), note: None })?;
            }
        }
        let made = of_session(None, self);
        let count = made.len();
        for mut entry in made {
            // What a session took is known at its end.
            entry.maker = Maker { session: entry.maker.session.clone(), ..self.maker.clone() };
            self.store.note(entry)?;
        }
        Ok((count, refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_spent_by_what_the_agent_tells() {
        let allowance = Allowance { wall: Duration::from_secs(1), usd: Some(0.5), tokens: Some(1000) };
        let told = |usd, tokens| AgentReport { usd, tokens, ..AgentReport::default() };
        assert!(!allowance.is_spent(&told(None, None)) && !allowance.is_spent(&told(Some(0.4), Some(999))));
        assert!(allowance.is_spent(&told(Some(0.5), None)) && allowance.is_spent(&told(None, Some(1000))));
        let unlimited = Allowance { usd: None, tokens: None, ..allowance };
        assert!(!unlimited.is_spent(&told(Some(1e9), Some(u64::MAX))));
    }
}
