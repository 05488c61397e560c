//! `mcp`: the judge as tools for a coding agent, over standard input and output.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use crate::base::files;
use crate::base::input::Lines;
use crate::base::report::{MessageFormat, Report};
use crate::base::session::Session;
use crate::base::socket::relay;
use crate::compile::nvrtc::Tool;
use crate::exit::Failure;
use crate::mcp;
use crate::pipeline::candidates::{self, serve};

use super::arguments::TaskDir;

/// Let a coding agent drive the judge: an MCP server
///
/// The server speaks the Model Context Protocol on standard input and output. Its tools are `task`, `try`, `profile`,
/// `history` and `submit`. `try` compiles a candidate, compares its results with the float64 reference and times it.
/// `submit` verifies a candidate in full, and compares it with the best one. Without a GPU, `try` only compiles.
///
/// In the project, only .kernelwright/candidates is written; `kernelwright candidates` shows it. After one minute
/// without a request, the GPU is released.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright mcp my-norm
  kernelwright mcp my-norm --tries 40")]
pub struct Args {
    #[command(flatten)]
    project: TaskDir,
    /// Forward to the server that listens on this socket; used by agents that `fill --agent` starts
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["task", "tries", "patience", "compiler"])]
    to: Option<PathBuf>,
    /// Maximum number of new candidates that `try` judges
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tries: Option<u32>,
    /// Time in seconds after which a running kernel counts as hung
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    patience: f64,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH")]
    compiler: Option<Tool>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    if let Some(socket) = &args.to {
        let gone = |cause| files::FileError::new("connect to", socket, cause);
        return Ok(relay(socket).map_err(gone)?);
    }
    // Standard output has the protocol alone, whatever --message-format says.
    let quiet = Session {
        report: Report::new(MessageFormat::Human, true),
        cache: session.cache.clone(),
        offline: session.offline,
        jobs: session.jobs,
    };
    let lines = Lines::of_stdin(mcp::LONGEST);
    let patience = Duration::from_secs_f64(args.patience.clamp(0.05, 600.0));
    let compiler = args.compiler.unwrap_or_default();
    candidates::at_desk(&args.project.dir, compiler, patience, &quiet, |desk| {
        desk.limit(args.tries.map(|tries| tries as usize));
        serve::serve(&mut |within| lines.next(within), desk, &mut |answer| quiet.report.raw(answer));
        Ok(())
    })
}
