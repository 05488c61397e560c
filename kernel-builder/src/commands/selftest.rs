//! `selftest`: the judge, judged by kernels that cheat and by honest ones.

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::selftest::render::{self, Totals};
use crate::selftest::{self, Ring, SelftestError, through_agent};
use crate::toolchain::python;

/// Test the verifier with kernels that cheat and with honest ones
///
/// Kernels that cheat must be refused, and honest ones must pass. The kernels are part of this program. Each one is
/// built and judged by `verify` or `bench` in a process of its own, and the table shows which check caught it. The
/// last ones, named `queue`, are candidates of one `screen` run. The exit code is 0 only if every result is as
/// expected. `--jobs` is the number of kernels at a time; default: half of the processors.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright selftest                     the kernels that need no GPU
  kernelwright selftest --gpu               all kernels
  kernelwright selftest --gpu --through-agent  device code, handed in by an agent
  kernelwright selftest skips- replays-     kernels with these words in their names")]
pub struct Args {
    /// Also judge the kernels that need an NVIDIA GPU
    #[arg(long)]
    gpu: bool,
    /// Judge only the kernels that need an NVIDIA GPU
    #[arg(long, conflicts_with = "gpu")]
    only_gpu: bool,
    /// Hand in the device-code kernels through `fill --agent-command`, as a coding agent would; fails if one that
    /// cheats is kept
    #[arg(long)]
    through_agent: bool,
    /// List the kernels without judging them
    #[arg(long)]
    list: bool,
    /// Judge only this kernel, or those whose names contain this text
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let mut fixtures = selftest::select(&args.names)?;
    if args.only_gpu {
        fixtures.retain(|fixture| fixture.ring != Ring::Cpu);
    }
    if args.through_agent {
        fixtures.retain(through_agent::can_be_handed_in);
    }
    if args.list {
        let mut names = Vec::new();
        for fixture in &fixtures {
            names.extend(fixture.subjects()?.into_iter().map(|subject| subject.name));
        }
        session.report.result("selftest", &json!({ "kernels": names }), &render::list(&fixtures)?);
        return Ok(());
    }
    let no_gpu = match (args.gpu || args.only_gpu, python::has_nvidia_driver()) {
        (true, true) => None,
        (true, false) => Some("no NVIDIA GPU here"),
        (false, _) => Some("needs --gpu"),
    };
    let rows = if args.through_agent {
        through_agent::run(&fixtures, no_gpu, session)?
    } else {
        selftest::run(&fixtures, no_gpu, session)?
    };
    let totals = Totals::count(&rows);
    session.report.result("selftest", &json!({ "rows": rows, "totals": totals }), &render::table(&rows));
    let wrong: Vec<_> =
        rows.iter().filter(|row| row.right == Some(false)).map(|row| row.name.clone()).collect();
    if !wrong.is_empty() {
        return Err(SelftestError::WrongVerdict { names: wrong }.into());
    }
    if totals.not_run == rows.len() {
        return Err(SelftestError::NothingRun { count: rows.len() }.into());
    }
    Ok(())
}

/// How many are judged at a time: half of the processors, since a judgement is two processes.
pub fn at_a_time(processors: usize) -> usize {
    (processors / 2).max(1)
}
