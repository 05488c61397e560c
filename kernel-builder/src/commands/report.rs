//! `report`: records as one HTML page.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::archive;
use crate::base::files;
use crate::base::session::Session;
use crate::bench::{Measurement, report};
use crate::exit::Failure;

/// Draw records as one HTML page that needs nothing else
///
/// Tables and plots of ratios with intervals, parts of the ceiling and samples, with the machine, the candidate and the
/// baselines. The page has no script and asks for no other file.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Example:\n  kernelwright report fast-norm/.kernelwright/records.jsonl -o fast-norm.html"
)]
pub struct Args {
    /// Files with one JSON line a record, `-` for standard input, or digests of the project's archive
    #[arg(value_name = "RECORD", required = true)]
    records: Vec<String>,
    /// Where the page is written
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// The project whose archive digests are looked up in
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let mut records: Vec<Measurement> = Vec::new();
    for name in &args.records {
        records.extend(archive::find(name, &args.project)?);
    }
    files::write(&args.output, report::page(&records, &[]))?;
    let human = format!("{}  {} records\n", args.output.display(), records.len());
    session.report.result("report", &json!({ "file": args.output, "records": records.len() }), &human);
    Ok(())
}
