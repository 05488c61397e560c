//! `submit`: takes back what a person, or a program on another machine, wrote in a workspace.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use crate::base::session::Session;
use crate::compile::nvrtc::Tool;
use crate::exit::Failure;
use crate::pipeline::candidates::handoff;

use super::arguments::TaskDir;

/// Judge the kernel in a workspace, and keep it if it is faster
///
/// `kernelwright fill DIR --agent handoff` creates the workspace. Its candidate is verified in full, and timed in
/// alternation with the best one so far. It becomes the best only if the measured gain is larger than its uncertainty.
/// `kernelwright fill DIR --apply best` writes the best one into the project. Requires an NVIDIA GPU.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright submit my-norm
  kernelwright submit my-norm --from ~/norm-workspace --note 'wider loads'")]
pub struct Args {
    #[command(flatten)]
    project: TaskDir,
    /// Workspace; default: the one of `fill --agent handoff`
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// One line that describes the improvement
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Time in seconds after which a running kernel counts as hung
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    patience: f64,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH")]
    compiler: Option<Tool>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let patience = Duration::from_secs_f64(args.patience.clamp(0.05, 600.0));
    let (tool, note) = (args.compiler.unwrap_or_default(), args.note.clone());
    let said = handoff::take_in(&args.project.dir, args.from.as_deref(), note, tool, patience, session)?;
    let gain = said.get("gain").filter(|gain| gain.is_object()).map_or_else(String::new, |gain| {
        let of = |key: &str| gain[key].as_f64().unwrap_or_default();
        format!(", {:.3}x [{:.3}, {:.3}] of the best", of("ratio"), of("low"), of("high"))
    });
    let word = |key: &str| said[key].as_str().unwrap_or_default();
    session.report.result("submit", &said, &format!("{}: {}{gain}\n", word("id"), word("verdict")));
    Ok(())
}
