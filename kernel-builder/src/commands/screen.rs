//! `screen`: many device candidates on one workload: compiled side by side, judged and timed one after the other.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::agent::tuner::drawn::DrawSize;
use crate::base::session::Session;
use crate::bench::screen::ScreenResult;
use crate::bench::{known, render};
use crate::compile::nvrtc::Tool;
use crate::exit::Failure;
use crate::pipeline::measure::screen::{self, JudgedCandidate, Request};
use crate::pipeline::project::tuned::Choice;

use super::arguments::TaskDir;

/// Settings of `[tune]` that are screened unless `--limit` or `--all` says otherwise.
const LIMIT: u32 = 1000;

/// Verify and time many device-code candidates on one workload
///
/// A candidate is a setting of `[tune]`, another source file, or a folder with a whole kernel. Each one is compiled,
/// called on new inputs, compared in full with the float64 reference, and timed in CUDA graphs whose calls are all
/// compared too. This takes tens of milliseconds per candidate. Each result is printed at once: the time and the share
/// of copy speed, or the code of the error. Requires an NVIDIA GPU.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright screen examples/rms-norm-device --workload llm-4096x4096
  kernelwright screen my-norm --candidates candidates.jsonl --samples 15")]
pub struct Args {
    #[command(flatten)]
    project: TaskDir,
    /// File with one JSON object per line, such as `{"tuning": {"block": 256}, "source": "other.cu"}`; both keys are
    /// optional. In place of `source`, `dir` names a folder with the layout of the project and its own `[launch]` and
    /// `[tune]`. `-` reads standard input. Default: every setting of `[tune]`
    #[arg(long, value_name = "FILE")]
    candidates: Option<PathBuf>,
    /// Maximum number of settings of `[tune]`; a larger space is sampled, and the sample includes the defaults
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
    /// Number of samples per candidate, after one for warm-up; a valid time needs at least 6
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(6..=1000))]
    samples: u16,
    /// Time in seconds after which a running kernel counts as hung
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    patience: f64,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH")]
    compiler: Option<Tool>,
    /// For tunables that a candidate does not set, use the defaults instead of the settings that `fill` found
    #[arg(long)]
    untuned: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let request = Request {
        dir: args.project.dir.clone(),
        candidates: args.candidates.clone(),
        amount: if args.all { DrawSize::All } else { DrawSize::AtMost(args.limit as usize) },
        seed: args.seed,
        workload: args.workload.clone(),
        samples: usize::from(args.samples),
        patience: Duration::from_secs_f64(args.patience.clamp(0.05, 600.0)),
        compiler: args.compiler.unwrap_or_default(),
        choice: Choice::new(args.untuned),
    };
    screen::screen(&request, session, &mut |judged| tell(judged, session))
}

/// Prints a candidate as soon as it is judged.
fn tell(judged: &JudgedCandidate<'_>, session: &Session) {
    let JudgedCandidate { place, candidate, compile_seconds, judge_seconds, worker, worker_seconds, attempt } =
        judged;
    let tuning: serde_json::Map<String, serde_json::Value> =
        candidate.tuning.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    let words = candidate.file.iter().cloned();
    let words: Vec<String> =
        words.chain(tuning.iter().map(|(name, value)| format!("{name}={value}"))).collect();
    let mut row = json!({
        "place": place, "tuning": tuning, "source": candidate.file, "base": candidate.base,
        "compile_seconds": compile_seconds, "judge_seconds": judge_seconds, "worker": worker,
        "worker_seconds": worker_seconds,
    });
    let human = match attempt {
        Ok(screened) => {
            put(&mut row, screened);
            line(screened, &words)
        }
        Err(complaint) => {
            row["verdict"] = json!("refused");
            row["code"] = json!(complaint.code);
            row["summary"] = json!(complaint.text);
            format!("{:>10}  {}: {}  {}\n", "refused", complaint.code, complaint.text, words.join(" "))
        }
    };
    session.report.result("screen", &row, &human);
}

/// A right candidate as a line for people.
fn line(screened: &ScreenResult, words: &[String]) -> String {
    let words = words.join(" ");
    if let Err(why) = known::of_samples(&screened.samples) {
        return format!("not measured: {why}  {words}\n");
    }
    let copy = screened.copy_fraction.map_or_else(String::new, |share| format!("{share:.3} of copy"));
    format!("{:>10}  {copy}  {words}\n", render::time(screened.seconds))
}

/// A right candidate as data. A time that is not a result is only in the samples.
fn put(row: &mut serde_json::Value, screened: &ScreenResult) {
    let unknown = known::of_samples(&screened.samples).err();
    row["verdict"] = json!("passed");
    row["seconds"] = json!(unknown.is_none().then_some(screened.seconds));
    row["samples"] = json!(screened.samples);
    row["copy_fraction"] = json!(screened.copy_fraction.filter(|_| unknown.is_none()));
    row["not_measured"] = json!(unknown);
    row["of_bound"] = json!(screened.of_bound);
    row["functions"] = json!(screened.functions);
}
