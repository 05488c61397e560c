//! Sessions of an agent, one after the other or some side by side, until nothing is gained any more.
//!
//! Owns: who is started, when a search ends. Never: judges; reads what an agent says of itself as a result.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;
use miette::Diagnostic;
use thiserror::Error;

use crate::agent::lineage::{Entry, is_over};
use crate::agent::program::{self, DescriptionError, Program};
use crate::base::api::{self, Api, Credential};
use crate::base::http::{HttpError, Patience};
use crate::base::process::{self, Limits};
use crate::base::report::{Event, Progress};
use crate::base::session::Session;
use crate::base::{confine, env, files, secrets};
use crate::compile::nvrtc::Tool;
use crate::device::gpu::NoDevice;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::measure::screening::ScreeningError;

use super::session::{self, Allowance, Judging, Plan, SessionResult, Shared};
use super::{Desk, at_desk};

/// How long a server may take to say anything.
const ANSWER: Duration = Duration::from_secs(8);
/// How long an agent may take to say its version.
const VERSION: Duration = Duration::from_secs(10);

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AgentChoice {
    /// An agent that this program knows.
    Named(String),
    /// Any command.
    Command(String),
}

/// What a search may take.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) dir: PathBuf,
    pub(crate) who: AgentChoice,
    pub(crate) model: Option<String>,
    /// Names of variables that the agent gets.
    pub(crate) env: Vec<String>,
    /// Seconds of all sessions.
    pub(crate) budget: f64,
    pub(crate) tries: Option<usize>,
    pub(crate) sessions: Option<usize>,
    pub(crate) parallel: usize,
    pub(crate) most_usd: Option<f64>,
    pub(crate) most_tokens: Option<u64>,
    pub(crate) patience: Duration,
    pub(crate) compiler: Tool,
    pub(crate) judging: Judging,
}

/// What came of a search.
pub(crate) struct SearchResult {
    pub(crate) sessions: Vec<SessionResult>,
    pub(crate) best: Option<Entry>,
}

/// Why no agent is at work.
#[derive(Debug, Error, Diagnostic)]
enum AgentError {
    #[error("there is no agent `{name}`")]
    #[diagnostic(code(agent::unknown), help("the agents are tuner, handoff, {}; --agent-command starts any program", known.join(", ")))]
    Unknown { name: String, known: Vec<String> },
    #[error("cannot find `{program}`")]
    #[diagnostic(code(agent::not_found), help("{install}"))]
    NotFound { program: String, install: String },
    #[error("the model of {name} does not answer")]
    #[diagnostic(
        code(agent::unreachable),
        help("pass its API key, and its address unless it is the default, with `--agent-env NAME`")
    )]
    Unreachable {
        name: String,
        #[source]
        cause: ModelFailure,
    },
    #[error("`{name}` needs a model")]
    #[diagnostic(code(agent::no_model), help("name one: --model MODEL"))]
    NoModel { name: String },
    #[error("another `fill` is already searching candidates for this project")]
    #[diagnostic(
        code(agent::busy),
        help("wait until it ends, or stop it; `kernelwright candidates` shows its progress")
    )]
    Busy,
    #[error("the description of `{name}` is not valid")]
    #[diagnostic(
        code(agent::description),
        help("resources/agents/ has examples; docs/reference/candidates.md has the keys")
    )]
    Description {
        name: String,
        #[source]
        cause: DescriptionError,
    },
}

/// Why a model does not answer.
#[derive(Debug, Error)]
enum ModelFailure {
    #[error("no API key found; set one of {} and pass it with --agent-env", keys.join(", "))]
    NoKey { keys: Vec<String> },
    #[error("{address} rejected the API key (HTTP {status})")]
    RefusedKey { address: String, status: u16 },
    #[error("{address} is overloaded (HTTP {status})")]
    Overloaded { address: String, status: u16 },
    #[error("{address} did not answer within {} s", within.as_secs())]
    Timeout { address: String, within: Duration },
    #[error(transparent)]
    Http(#[from] HttpError),
    /// In the words of the agent.
    #[error("{0}")]
    Agent(String),
}

impl StageError for AgentError {
    fn exit(&self) -> u8 {
        // As any other value of an option that there is not.
        if matches!(self, Self::Unknown { .. }) { exit::USAGE } else { exit::AGENT }
    }
}

/// Lets an agent write candidates.
///
/// # Errors
/// There is no GPU to judge them, no agent, no model behind it, or another search; or the judge itself fails.
pub(crate) fn search(args: &Request, session: &Session) -> Result<SearchResult, Failure> {
    let began = Instant::now();
    at_desk(&args.dir, args.compiler, args.patience, session, |desk| {
        let plan = plan(args)?;
        // Before anything is spent.
        if args.judging == Judging::Judged {
            desk.gpu()?.map_err(ScreeningError::no_gpu)?;
        }
        let Some(_alone) = files::try_lock(&desk.lock())? else { return Err(AgentError::Busy.into()) };
        reaches(&plan)?;
        if !confine::is_possible() {
            session.report.warn(
                "cannot confine the agent (this system has no Landlock): it can read and write all your files",
            );
        }
        desk.limit(args.tries);
        let mut sessions: Vec<SessionResult> = Vec::new();
        let desk = Mutex::new(desk);
        loop {
            let left = args.budget - began.elapsed().as_secs_f64();
            let gained: Vec<bool> = sessions.iter().map(|ended| ended.gained).collect();
            let usd: f64 = sessions.iter().filter_map(|ended| ended.told.usd).sum();
            let tokens: u64 = sessions.iter().filter_map(|ended| ended.told.tokens).sum();
            let more = args.sessions.map_or(args.parallel, |most| args.parallel.min(most - sessions.len()));
            let tries = desk.lock().unwrap_or_else(PoisonError::into_inner).tries_left();
            let is_spent = args.most_usd.is_some_and(|most| usd >= most)
                || args.most_tokens.is_some_and(|most| tokens >= most);
            if left < 1.0 || more == 0 || tries == Some(0) || is_spent || is_over(&gained) {
                break;
            }
            let first = sessions.len();
            // Sessions side by side share what is left.
            let share = more as u64;
            let allowance = Allowance {
                wall: Duration::from_secs_f64(left),
                usd: args.most_usd.map(|most| (most - usd) / share as f64),
                tokens: args.most_tokens.map(|most| most.saturating_sub(tokens).div_ceil(share)),
            };
            let done: Vec<Result<SessionResult, Failure>> = std::thread::scope(|scope| {
                let begin = |number: usize| {
                    let (plan, desk, allowance) = (&plan, &desk, &allowance);
                    scope.spawn(move || session::run(&Shared(desk), plan, number, allowance, args.judging))
                };
                let threads: Vec<_> = (first..first + more).map(begin).collect();
                let joined = threads.into_iter().map(|thread| thread.join());
                joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
            });
            for ended in done {
                let ended = ended?;
                tell(&ended, &plan, session);
                if let Some(words) = ended.told.unreachable.clone().filter(|_| ended.candidates == 0) {
                    let cause = ModelFailure::Agent(words);
                    return Err(AgentError::Unreachable { name: plan.name, cause }.into());
                }
                sessions.push(ended);
            }
        }
        let best = desk.into_inner().unwrap_or_else(PoisonError::into_inner).best_entry();
        Ok(SearchResult { sessions, best })
    })
}

fn tell(ended: &SessionResult, plan: &Plan, session: &Session) {
    let tokens = ended.told.tokens.map_or_else(String::new, |tokens| format!(", {tokens} tokens"));
    let usd = ended.told.usd.map_or_else(String::new, |usd| format!(", {usd:.2} USD"));
    let gained = if ended.gained { ", a new best" } else { "" };
    let detail =
        format!("{} from {}, {} candidates{tokens}{usd}{gained}", plan.name, ended.parent, ended.candidates);
    let subject = ended.session.as_str();
    session.report.emit(&Event::Done {
        action: "session",
        subject,
        detail: &detail,
        seconds: ended.seconds,
        cached: false,
    });
    match &ended.refused {
        Some(why) => {
            session.report.note(format!("{subject}: the files that {} left are refused: {why}", plan.name));
        }
        None if ended.candidates == 0 => {
            session.report.note(format!("{subject}: {} {}, and changed nothing", plan.name, ended.ending));
        }
        None => {}
    }
}

/// Who is started, with what.
fn plan(args: &Request) -> Result<Plan, Failure> {
    let (name, agent) = match &args.who {
        AgentChoice::Named(name) => match program::named(name) {
            Some(Ok(agent)) => (name.clone(), agent),
            Some(Err(cause)) => return Err(AgentError::Description { name: name.clone(), cause }.into()),
            None => return Err(AgentError::Unknown { name: name.clone(), known: program::names() }.into()),
        },
        AgentChoice::Command(command) => {
            let words = shlex::split(command).unwrap_or_default();
            let agent = Program::of_command(&words).ok_or_else(|| AgentError::Description {
                name: command.clone(),
                cause: DescriptionError::Command,
            })?;
            (agent.program.clone(), agent)
        }
    };
    let Some(program) = process::find(&agent.program) else {
        return Err(AgentError::NotFound { program: agent.program, install: agent.install }.into());
    };
    if agent.needs_model && args.model.is_none() {
        return Err(AgentError::NoModel { name }.into());
    }
    let passed: BTreeMap<String, String> =
        args.env.iter().filter_map(|name| Some((name.clone(), env::text(name)?))).collect();
    for (variable, value) in &passed {
        // An address is no secret, and a short word would hide half of a transcript.
        if !agent.pass.contains(variable) {
            secrets::hide(value);
        }
    }
    let key = agent.keys.iter().find(|key| passed.contains_key(*key)).cloned();
    if key.is_none() && !agent.keys.is_empty() {
        let cause = ModelFailure::NoKey { keys: agent.keys };
        return Err(AgentError::Unreachable { name, cause }.into());
    }
    let address = agent
        .address
        .as_ref()
        .map(|address| passed.get(&address.variable).cloned().unwrap_or_else(|| address.default.clone()));
    let version = version(&program);
    Ok(Plan {
        name,
        program,
        version,
        model: args.model.clone(),
        key: key.unwrap_or_default(),
        address: address.unwrap_or_default(),
        passed,
        agent,
    })
}

/// What a program says of its version, in a line.
fn version(program: &std::path::Path) -> Option<String> {
    let line = CommandLine::new(program).arg("--version");
    let done = process::run(&line, Limits::wall(VERSION)).ok()?;
    let text = done.stdout_text().lines().next()?.trim().to_owned();
    (done.ending.success() && !text.is_empty() && text.len() < 100).then_some(text)
}

/// Whether the model's server answers, and takes the key. Agents that are left alone with one that does not try again for
/// minutes.
fn reaches(plan: &Plan) -> Result<(), AgentError> {
    let Some(probe) = plan.agent.probe(&plan.address) else { return Ok(()) };
    let unreachable = |cause| AgentError::Unreachable { name: plan.name.clone(), cause };
    let address = plan.address.clone();
    let key = plan.passed.get(&plan.key).cloned().unwrap_or_default();
    let (send, answered) = sync_channel(1);
    std::thread::spawn(move || {
        let patience = Patience { attempts: 1, ..Patience::default() };
        let request = match &probe.header {
            Some(header) => api::Request::get(&probe.url).header(header, &key),
            None => api::Request::get(&probe.url).with(Credential::new(&key, &probe.url).as_ref()),
        };
        let answer = Api::new(patience).ask(&request.once(), &Progress::hidden());
        let _nobody_waits = send.send(answer.map(|answer| answer.status));
    });
    match answered.recv_timeout(ANSWER) {
        Ok(Ok(status @ (401 | 403))) => Err(unreachable(ModelFailure::RefusedKey { address, status })),
        Ok(Ok(status @ (429 | 500..))) => Err(unreachable(ModelFailure::Overloaded { address, status })),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(unreachable(error.into())),
        Err(_) => Err(unreachable(ModelFailure::Timeout { address, within: ANSWER })),
    }
}

impl Desk<'_> {
    fn gpu(&mut self) -> Result<Result<(), NoDevice>, Failure> {
        Ok(self.judge.device()?.map(drop))
    }

    fn lock(&self) -> PathBuf {
        self.store.lock()
    }

    fn tries_left(&self) -> Option<usize> {
        self.tries
    }

    fn best_entry(&self) -> Option<Entry> {
        self.store.lineage().best().cloned()
    }
}
