//! `fill`: an agent proposes settings of a device project, the judge says what they are worth, the best ones are kept.

use std::time::Duration;

use clap::Args as ClapArgs;
use kernel_plan::spec::tune::Tuning;
use serde_json::{Value, json};

use crate::agent::Budget;
use crate::agent::tuner::space::words;
use crate::archive::Earlier;
use crate::base::session::Session;
use crate::compile::nvrtc::Tool;
use crate::exit::Failure;
use crate::pipeline::tune::filled::{Filled, verdict};
use crate::pipeline::tune::phases::Phases;
use crate::pipeline::tune::{self, Request, Search};

use super::arguments::TaskDir;

/// Find the fastest `[tune]` setting for each workload on this GPU
///
/// The agent proposes settings. Each one is compiled, compared with the float64 reference and timed, and the agent
/// gets the result. The best few are then timed in turn with the defaults; a gain inside its interval does not count.
/// Winning settings go to tuned/DEVICE.toml, which `verify --device`, `bench --device` and `screen` use.
///
/// Workloads that op.toml holds out are not searched. An interrupted search continues on the next run. Requires an
/// NVIDIA GPU.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright fill examples/rms-norm-device --budget 30
  kernelwright fill my-norm --workload llm-4096x4096 --candidates 500")]
pub struct Args {
    #[command(flatten)]
    project: TaskDir,
    /// Agent that proposes the settings
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = AgentName::Tuner)]
    agent: AgentName,
    /// Search only this workload, named as in `bench`; can be repeated
    #[arg(long = "workload", value_name = "NAME")]
    workloads: Vec<String>,
    /// Time limit in seconds for the search of each workload and dtype
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    budget: f64,
    /// Maximum number of candidates for each workload and dtype; timing a setting again counts again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    candidates: Option<u32>,
    /// Seed of the search; the same seed and the same verdicts give the same search
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Ignore the results of earlier searches of this source on this GPU
    #[arg(long)]
    fresh: bool,
    /// Time in seconds after which a running kernel counts as hung
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    patience: f64,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH")]
    compiler: Option<Tool>,
}

/// Who proposes candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AgentName {
    /// Built in, without a language model: searches the settings of `[tune]`
    Tuner,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if (0.01..=1e6).contains(&number) { Ok(number) } else { Err("it is between 0.01 and 1000000".to_owned()) }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let AgentName::Tuner = args.agent;
    let request = Request {
        dir: args.project.dir.clone(),
        workloads: args.workloads.clone(),
        budget: Budget {
            seconds: args.budget,
            candidates: args.candidates.map(|candidates| candidates as usize),
        },
        seed: args.seed,
        earlier: if args.fresh { Earlier::Forget } else { Earlier::Resume },
        patience: Duration::from_secs_f64(args.patience),
        compiler: args.compiler.unwrap_or_default(),
    };
    let search = tune::fill(&request, session)?;
    tell(&search, session);
    search.verdict()
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

fn row(filled: &Filled) -> Value {
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
