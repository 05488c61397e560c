//! `fill`: an agent proposes settings of a device project, the judge says what they are worth, the best ones are kept.

use std::path::Path;
use std::time::Duration;

use clap::Args as ClapArgs;
use kernel_plan::spec::tune::Tuning;
use miette::Diagnostic;
use serde_json::{Value, json};
use thiserror::Error;

use crate::agent::Budget;
use crate::agent::tuner::space::words;
use crate::archive::Earlier;
use crate::base::session::Session;
use crate::compile::nvrtc::Tool;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::candidates::search::{self, AgentChoice, SearchResult};
use crate::pipeline::candidates::session::Judging;
use crate::pipeline::candidates::{handoff, past, shelf};
use crate::pipeline::tune::filled::{WorkloadResult, verdict};
use crate::pipeline::tune::phases::Phases;
use crate::pipeline::tune::spread::{self, Group, SpreadSearch};
use crate::pipeline::tune::{self, Request, Search};

use super::arguments::TaskDir;

/// Find faster settings, or let a coding agent write faster kernels
///
/// Without `--agent`, this searches for the fastest `[tune]` setting of each workload on this GPU.
///
/// The search proposes settings. Each one is compiled, compared with the float64 reference and timed, and the result
/// guides the search. The best few are then timed in alternation with the defaults; a gain inside its interval does not
/// count. The winning settings go to tuned/DEVICE.toml, which `verify --device`, `bench --device` and `screen` use.
///
/// With `--spread`, lengths are drawn in place of workloads, as `bench --drawn` does. The settings that win are compared at
/// all of them, and become rules that choose a setting by the lengths of a call. A third of the lengths only tests the
/// rules: if they are not faster than the defaults there, nothing is written.
///
/// Workloads that op.toml holds out are not searched. An interrupted search continues on the next run. Requires an
/// NVIDIA GPU.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright fill examples/rms-norm-device --budget 30
  kernelwright fill my-norm --workload llm-4096x4096 --candidates 500
  kernelwright fill my-norm --spread --count 36 --budget 900
  kernelwright fill my-norm --agent codex --agent-env OPENAI_API_KEY --tries 40
  kernelwright fill my-norm --apply best")]
pub struct Args {
    #[command(flatten)]
    project: TaskDir,
    /// Agent to use: `tuner` searches the settings of `[tune]`, without a language model; `claude`, `codex`, `gemini`
    /// and `opencode` are coding agents that write kernels; `handoff` creates a workspace for a person
    #[arg(long, value_name = "WHO", default_value = TUNER)]
    agent: String,
    /// Command that starts another agent, in a folder with TASK.md; `{prompt}` in it is replaced by the task
    #[arg(long, value_name = "COMMAND", conflicts_with = "agent")]
    agent_command: Option<String>,
    #[command(flatten)]
    agents: AgentArgs,
    /// Search only this workload, named as in `bench`; can be repeated
    #[arg(long = "workload", value_name = "NAME")]
    workloads: Vec<String>,
    /// Search drawn lengths instead of the workloads, and write rules for lengths that no workload names
    #[arg(long, conflicts_with = "workloads")]
    spread: bool,
    /// Number of lengths to search with `--spread`; half as many others test the rules
    #[arg(long, value_name = "COUNT", requires = "spread", default_value_t = LENGTHS, value_parser = clap::value_parser!(u16).range(8..=500))]
    count: u16,
    /// Time limit in seconds; default: 30 for each workload and dtype, 900 with `--spread`, and 1800 for all sessions of a
    /// coding agent
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    budget: Option<f64>,
    /// Maximum number of candidates for each workload and dtype; timing a setting again counts again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    candidates: Option<u32>,
    /// Seed of the search and of the drawn lengths; the same seed and the same verdicts give the same search
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Ignore the results of earlier searches of this source on this GPU
    #[arg(long)]
    fresh: bool,
    /// Time in seconds after which a running kernel counts as hung
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    patience: f64,
    /// Write a candidate of `kernelwright candidates` into the project: its code, `[launch]`, `[tune]` and settings.
    /// `best` is the fastest so far; `seed` puts the project's own kernel back
    #[arg(long, value_name = "ID", conflicts_with_all = ["agent", "agent_command", "workloads", "spread", "budget", "candidates", "seed", "fresh",
        "patience", "compiler"])]
    apply: Option<String>,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH")]
    compiler: Option<Tool>,
}

/// The agent without a language model, and the one that is a person.
const TUNER: &str = "tuner";
const HANDOFF: &str = "handoff";
/// Drawn lengths that are searched.
const LENGTHS: u16 = 36;
/// Seconds of a workload's search, of a search of drawn lengths, and of all sessions of a coding agent.
const OF_WORKLOAD: f64 = 30.0;
const OF_SPREAD: f64 = 900.0;
const OF_SESSIONS: f64 = 1800.0;

/// Options of coding agents.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Coding agents")]
struct AgentArgs {
    /// Environment variable to pass to the agent besides PATH, such as an API key; can be repeated
    #[arg(long, value_name = "NAME")]
    agent_env: Vec<String>,
    /// Model that the agent uses
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Maximum number of new candidates to judge
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tries: Option<u32>,
    /// Maximum number of sessions; without it, a search ends after 5 sessions without a gain
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sessions: Option<u32>,
    /// Number of sessions at a time; they share the GPU
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// Maximum cost of all sessions in US dollars, if the agent reports it. A session that reaches it is ended
    #[arg(long, value_name = "USD", value_parser = seconds)]
    max_usd: Option<f64>,
    /// Maximum number of tokens of all sessions, if the agent reports it. A session that reaches it is ended
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Only compile candidates, without a GPU; none is judged, so none becomes the best
    #[arg(long)]
    unjudged: bool,
}

/// An option that does nothing for the agent that is named.
#[derive(Debug, Error, Diagnostic)]
#[error("{option} is only supported by {whose}")]
#[diagnostic(code(agent::option), help("leave it out, or pass {agent}"))]
struct OtherOption {
    option: &'static str,
    whose: &'static str,
    agent: &'static str,
}

impl StageError for OtherOption {
    fn exit(&self) -> u8 {
        exit::USAGE
    }
}

impl Args {
    /// The first option that is given and for others than this agent.
    fn of_others(&self, is_tuner: bool) -> Option<&'static str> {
        let of_tuner = [
            (!self.workloads.is_empty(), "--workload"),
            (self.spread, "--spread"),
            (self.candidates.is_some(), "--candidates"),
            (self.seed != 0, "--seed"),
            (self.fresh, "--fresh"),
        ];
        let AgentArgs { agent_env, model, tries, sessions, parallel, max_usd, max_tokens, unjudged } =
            &self.agents;
        let of_agents = [
            (!agent_env.is_empty(), "--agent-env"),
            (model.is_some(), "--model"),
            (tries.is_some(), "--tries"),
            (sessions.is_some(), "--sessions"),
            (*parallel != 1, "--parallel"),
            (max_usd.is_some(), "--max-usd"),
            (max_tokens.is_some(), "--max-tokens"),
            (*unjudged, "--unjudged"),
        ];
        let given = |(is_given, option): (bool, &'static str)| is_given.then_some(option);
        if is_tuner { of_agents.into_iter().find_map(given) } else { of_tuner.into_iter().find_map(given) }
    }
}

/// A time in seconds, or an amount of money.
fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=1e6).contains(&number) { Ok(number) } else { Err("not between 0.01 and 1000000".to_owned()) }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    if let Some(id) = &args.apply {
        return apply(&args.project.dir, id, session);
    }
    let is_tuner = args.agent_command.is_none() && args.agent == TUNER;
    if let Some(option) = args.of_others(is_tuner) {
        let (whose, agent) =
            if is_tuner { ("a coding agent", "--agent NAME") } else { ("the tuner", "no --agent") };
        return Err(OtherOption { option, whose, agent }.into());
    }
    match (&args.agent_command, args.agent.as_str()) {
        (Some(command), _) => return agents(args, AgentChoice::Command(command.clone()), session),
        (None, HANDOFF) => return hand_out(args, session),
        (None, TUNER) => {}
        (None, name) => return agents(args, AgentChoice::Named(name.to_owned()), session),
    }
    let request = Request {
        dir: args.project.dir.clone(),
        workloads: args.workloads.clone(),
        budget: Budget {
            seconds: args.budget.unwrap_or(if args.spread { OF_SPREAD } else { OF_WORKLOAD }),
            candidates: args.candidates.map(|candidates| candidates as usize),
        },
        seed: args.seed,
        earlier: if args.fresh { Earlier::Forget } else { Earlier::Resume },
        patience: Duration::from_secs_f64(args.patience),
        compiler: args.compiler.unwrap_or_default(),
    };
    if args.spread {
        tell_spread(&spread::spread(&request, usize::from(args.count), session)?, session);
        return Ok(());
    }
    let search = tune::fill(&request, session)?;
    tell(&search, session);
    search.verdict()
}

/// Writes a candidate into the project.
fn apply(dir: &Path, id: &str, session: &Session) -> Result<(), Failure> {
    let (entry, written) = shelf::open(dir, session)?.apply(id, session)?;
    let what = if written.is_empty() {
        "the project already has this candidate".to_owned()
    } else {
        written.join(", ")
    };
    let human = format!("{}: {what}\n", entry.id);
    session.report.result("fill", &json!({ "applied": entry.id, "written": written }), &human);
    Ok(())
}

/// Lets a coding agent write kernels.
fn agents(args: &Args, who: AgentChoice, session: &Session) -> Result<(), Failure> {
    let of_agents = &args.agents;
    let request = search::Request {
        dir: args.project.dir.clone(),
        who,
        model: of_agents.model.clone(),
        env: of_agents.agent_env.clone(),
        budget: args.budget.unwrap_or(OF_SESSIONS),
        tries: of_agents.tries.map(|tries| tries as usize),
        sessions: of_agents.sessions.map(|sessions| sessions as usize),
        parallel: usize::from(of_agents.parallel),
        most_usd: of_agents.max_usd,
        most_tokens: of_agents.max_tokens,
        patience: Duration::from_secs_f64(args.patience),
        compiler: args.compiler.unwrap_or_default(),
        judging: if of_agents.unjudged { Judging::Compiled } else { Judging::Judged },
    };
    let SearchResult { sessions, best } = search::search(&request, session)?;
    let rows: Vec<Value> = sessions
        .iter()
        .map(|ended| {
            json!({
                "session": ended.session, "parent": ended.parent, "ending": ended.ending, "seconds": ended.seconds,
                "tokens": ended.told.tokens, "usd": ended.told.usd, "model": ended.told.model,
                "candidates": ended.candidates, "gained": ended.gained,
            })
        })
        .collect();
    let human = match &best {
        Some(best) => format!(
            "best: {}  {}\n`kernelwright candidates` shows all; `kernelwright fill --apply best` writes it into the project\n",
            best.id,
            past::words(best),
        ),
        None => String::new(),
    };
    let best = best.as_ref().map(past::row);
    session.report.result("fill", &json!({ "sessions": rows, "best": best }), &human);
    Ok(())
}

/// Makes a workspace for a person.
fn hand_out(args: &Args, session: &Session) -> Result<(), Failure> {
    let workspace = handoff::hand_out(&args.project.dir, args.compiler.unwrap_or_default(), session)?;
    let folder = workspace.folder.display();
    let human = if workspace.was_there {
        format!("{folder}\nthe workspace exists; hand it in with `kernelwright submit`, or delete it\n")
    } else {
        format!("{folder}\nTASK.md describes the task; hand in the result with `kernelwright submit`\n")
    };
    let data = json!({ "workspace": workspace.folder, "was_there": workspace.was_there });
    session.report.result("fill", &data, &human);
    Ok(())
}

/// The data of the run, and a table for people.
fn tell(search: &Search, session: &Session) {
    let Search { filled, name, table, took } = search;
    let rows: Vec<Value> = filled.iter().map(row).collect();
    let mut human = String::new();
    for one in filled {
        let text = match &one.confirmed {
            Some(confirmed) => format!("{}  {}", verdict(confirmed, one.of_peak), words(&confirmed.tuning)),
            None => "no setting is right".to_owned(),
        };
        human += &format!("{:<28} {text}\n", one.case.id);
    }
    let written = filled.iter().any(|one| one.result().is_some()).then_some(name);
    if let Some(name) = written {
        human += &format!("written to {name}\n");
    }
    let phases = Phases::sum(filled.iter().map(|one| one.phases));
    let data = json!({
        "cases": rows, "device": table.device, "source": table.source, "written": written,
        "phases": phases.data(), "wall_seconds": took.as_secs_f64(),
    });
    session.report.result("fill", &data, &human);
}

/// What came of drawn lengths.
fn tell_spread(search: &SpreadSearch, session: &Session) {
    let SpreadSearch { groups, name, table, took } = search;
    let mut human = String::new();
    for group in groups {
        human += &format!("{:<28} {}\n", spread::dtype_words(group), spread::verdict(group));
    }
    let written = groups.iter().any(Group::is_kept).then_some(name);
    if let Some(name) = written {
        human += &format!("written to {name}\n");
    }
    let data = json!({
        "spread": groups.iter().map(group_row).collect::<Vec<_>>(), "device": table.device, "source": table.source,
        "written": written, "wall_seconds": took.as_secs_f64(),
    });
    session.report.result("fill", &data, &human);
}

fn group_row(group: &Group) -> Value {
    let rules: Vec<Value> = group
        .rules
        .iter()
        .map(|rule| {
            let tuning = tuning_json(&group.settings[rule.setting]);
            json!({ "ranges": rule.ranges, "multiples": rule.multiples, "searched": rule.samples, "tuning": tuning })
        })
        .collect();
    let lengths: Vec<Value> = group
        .lengths
        .iter()
        .map(|length| {
            json!({
                "case": length.case, "unseen": length.is_unseen, "tuning": tuning_json(&group.settings[length.setting]),
                "over_defaults": length.over_defaults, "of_best": length.of_best,
            })
        })
        .collect();
    let worth = group.worth.as_ref().map(|worth| {
        json!({
            "lengths": worth.lengths, "over_defaults": worth.over_defaults, "of_best": worth.of_best,
            "worst": { "of_best": worth.worst.0, "case": worth.worst.1 },
        })
    });
    json!({
        "dtypes": group.dtypes, "compared": group.settings.len(), "rules": rules, "unseen": worth, "cases": lengths,
        "kept": group.is_kept(),
    })
}

fn row(filled: &WorkloadResult) -> Value {
    let standing = &filled.standing;
    let refused: serde_json::Map<String, Value> =
        standing.refused.iter().map(|(code, (count, _))| (code.clone(), json!(count))).collect();
    let mut row = json!({
        "case": filled.case.id, "strategy": filled.strategy, "judged": standing.judged,
        "right": standing.right, "recalled": standing.recalled, "refused": refused,
        "search_seconds": standing.seconds, "of_peak": filled.of_peak, "phases": filled.phases.data(),
    });
    let Some(confirmed) = &filled.confirmed else {
        row["tuning"] = Value::Null;
        return row;
    };
    if let Some(why) = &confirmed.unknown {
        row["tuning"] = Value::Null;
        row["not_measured"] = json!(why);
        return row;
    }
    row["tuning"] = tuning_json(&confirmed.tuning);
    row["seconds"] = json!(confirmed.seconds);
    row["default_seconds"] = json!(confirmed.default_seconds);
    row["copy_fraction"] = json!(confirmed.copy_fraction);
    row["gain"] = json!(confirmed.gain);
    let missed = confirmed.missed.as_ref();
    row["missed"] =
        json!(missed.map(|(tuning, gain)| json!({ "tuning": tuning_json(tuning), "gain": gain })));
    row
}

fn tuning_json(tuning: &Tuning) -> Value {
    tuning.iter().map(|(name, value)| (name.to_string(), json!(value))).collect()
}
