//! `candidates`: what agents handed in, and what became of it.

use clap::Args as ClapArgs;
use serde_json::json;

use crate::agent::lineage::SEED;
use crate::base::session::Session;
use crate::exit::Failure;
use crate::pipeline::candidates::past;
use crate::pipeline::candidates::shelf::{self, CandidateDetails};

use super::arguments::TaskDir;

/// Show the kernels that agents handed in, with verdicts and times
///
/// Without an ID, lists all candidates. With one, shows all data of that candidate, and its changes from its parent.
/// An ID can be shortened to its first characters; `best` and `seed` are IDs too. `kernelwright fill --apply ID` writes
/// a candidate into the project.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright candidates my-norm
  kernelwright candidates my-norm best --diff seed")]
pub struct Args {
    #[command(flatten)]
    project: TaskDir,
    /// Candidate to show
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Show the differences from this candidate; default: from its parent
    #[arg(long, value_name = "ID", requires = "id")]
    diff: Option<String>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let shelf = shelf::open(&args.project.dir, session)?;
    let Some(id) = &args.id else {
        let lineage = shelf.lineage();
        let best = lineage.best().map(|entry| entry.id.as_str());
        let mut human = String::new();
        for (depth, entry) in lineage.tree() {
            let mark = if Some(entry.id.as_str()) == best { "*" } else { " " };
            human += &format!("{mark} {}{}  {}\n", "  ".repeat(depth), entry.id, past::words(entry));
        }
        if human.is_empty() {
            human = format!(
                "no candidates yet; `kernelwright mcp {}` lets a coding agent write some\n",
                args.project.dir.display()
            );
        }
        let rows: Vec<_> = lineage.entries().iter().map(past::row).collect();
        let data =
            json!({ "best": best, SEED: lineage.seed().map(|entry| entry.id.as_str()), "candidates": rows });
        session.report.result("candidates", &data, &human);
        return Ok(());
    };
    let CandidateDetails { entry, folder, from, diff } = shelf.show(id, args.diff.as_deref())?;
    let mut human = format!("{}  {}\n{}\n", entry.id, past::words(&entry), folder.display());
    if let Some(text) = &entry.text {
        human += &format!("{text}\n");
    }
    human += &diff;
    let data = json!({ "candidate": past::row(&entry), "folder": folder, "from": from, "diff": diff });
    session.report.result("candidates", &data, &human);
    Ok(())
}
