//! `report`: records as one HTML page.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde_json::json;

use crate::archive::{self, ArchiveError};
use crate::base::files;
use crate::base::session::Session;
use crate::bench::{Measurement, report};
use crate::exit::Failure;
use crate::pipeline::measure::e2e::pages;

/// Write records as one HTML page with tables and plots
///
/// The page shows ratios with intervals, shares of the ceiling and samples, with the machine, the candidate and the
/// baselines. It has no scripts and needs no other files.
///
/// Records of models, which `bench --e2e` writes, become a page for each model with the same kernels. The first one is the file
/// of `--output`, the others have a number in their names.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright report fast-norm/.kernelwright/records.jsonl -o fast-norm.html
  kernelwright report bench/results/2026-11-23-h200-rows.jsonl -o rows.html
  kernelwright report bench/results/2026-11-28-h200-e2e.jsonl -o models.html")]
pub struct Args {
    /// Files with one JSON record per line, `-` for standard input, or digests from the project's archive
    #[arg(value_name = "RECORD", required = true)]
    records: Vec<String>,
    /// HTML file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Project whose archive contains the digests
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let of_models: Vec<_> = args.records.iter().map(|name| (name, pages::read(Path::new(name)))).collect();
    let one = |is_model: bool| of_models.iter().find(|(_, lines)| lines.is_some() == is_model);
    if let (Some((model, _)), Some((other, _))) = (one(true), one(false)) {
        let (model, other) = ((*model).clone(), (*other).clone());
        archive::find(&other, &args.project)?;
        return Err(ArchiveError::TwoKinds { model, other }.into());
    }
    if one(true).is_some() {
        let lines: Vec<_> = of_models.into_iter().filter_map(|(_, lines)| lines).flatten().collect();
        let written = pages::write(&lines, &args.output)?;
        let shown = written.iter().map(|path| format!("{}\n", path.display())).collect::<String>();
        session.report.result("report", &pages::facts(&written, lines.len()), &shown);
        return Ok(());
    }
    let mut records: Vec<Measurement> = Vec::new();
    for name in &args.records {
        records.extend(archive::find(name, &args.project)?);
    }
    files::write(&args.output, report::page(&records, &[]))?;
    let human = format!("{}  {} records\n", args.output.display(), records.len());
    session.report.result(
        "report",
        &json!({ "file": args.output, "files": [args.output], "records": records.len() }),
        &human,
    );
    Ok(())
}
