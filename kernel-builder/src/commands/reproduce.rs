//! `reproduce`: measures again what a record says, and tells whether both agree.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::bench::Ratio;
use crate::bench::reproduce::Comparison;
use crate::exit::Failure;
use crate::pipeline::measure::reproduce::{self, Request};

use super::arguments::{Judging, Selection};

/// Repeat a record's measurements here, and compare the results
///
/// Uses the same workload, dtype, regime and budget, and at least 3 starts, or as many as the record has. A ratio
/// agrees if both intervals overlap, or if the gap between them is at most 1%. The exit code is 0 if all ratios
/// agree.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright reproduce fast-norm/.kernelwright/records.jsonl fast-norm
  kernelwright reproduce --any-source fast-norm/.kernelwright/records.jsonl fast-norm")]
pub struct Args {
    /// File with one JSON record per line, `-` for standard input, or a digest from the project's archive
    #[arg(value_name = "RECORD")]
    record: String,
    /// Kernel project; for records of device code also a file such as backward.toml
    #[arg(id = "task", value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Measure even if the sources differ from those of the record
    #[arg(long)]
    any_source: bool,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    judge: Judging,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let request = Request {
        record: args.record.clone(),
        dir: args.dir.clone(),
        any_source: args.any_source,
        selection: args.selection.selection(),
        judging: args.judge.judging(),
    };
    let comparisons = reproduce::again(&request, session)?;
    let verdict = reproduce::verdict(&comparisons);
    let data = json!({ "agrees": verdict.is_ok(), "records": comparisons });
    session.report.result("reproduce", &data, &table(&comparisons));
    Ok(verdict?)
}

/// Every ratio of then and of now, and below what differs.
fn table(comparisons: &[Comparison]) -> String {
    let shown = |ratio: &Ratio| format!("{:.3}x [{:.3}, {:.3}]", ratio.ratio, ratio.low, ratio.high);
    let mut text = String::new();
    let mut differences: Vec<&String> = Vec::new();
    for comparison in comparisons {
        for ratio in &comparison.ratios {
            let word = match ratio.agrees {
                Some(true) => "agrees",
                Some(false) => "DIFFERS",
                None if ratio.not_measured.is_some() => "unknown",
                None => "missing",
            };
            let now = match (&ratio.now, &ratio.not_measured) {
                (Some(now), _) => shown(now),
                (None, Some(why)) => format!("not measured: {why}"),
                (None, None) => "not measured here".to_owned(),
            };
            let Comparison { op, workload, dtype, regime, .. } = comparison;
            let case = format!("{op} {workload} {dtype} {regime}");
            let _infallible = writeln!(
                text,
                "{word:<8} {case}  vs {}  recorded {}  now {now}",
                ratio.versus,
                shown(&ratio.recorded)
            );
        }
        differences.extend(&comparison.differences);
    }
    differences.sort();
    differences.dedup();
    for difference in differences {
        let _infallible = writeln!(text, "differs here: {difference}");
    }
    text
}
