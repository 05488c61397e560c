//! `selftest`: the judge, judged by kernels that cheat and by honest ones.

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::selftest::render::{self, Totals};
use crate::selftest::{self, Ring, SelftestError};
use crate::toolchain::python;

/// Judge kernels that cheat, each of which must be caught, and honest ones, which must pass
///
/// The kernels are part of the program. Each is built and judged by `verify` or `bench` in a process of its own, and the
/// table says what caught it; the last ones, `queue`, are candidates of one `screen`. The exit status is 0 only if all that was run came out as it must. `--jobs` is how many are
/// judged at a time; default: half of the processors.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  kernelwright selftest                 those that need no GPU\n  \
    kernelwright selftest --gpu           all of them\n  \
    kernelwright selftest skips-tail      this one\n  kernelwright selftest skips- replays- those with such names")]
pub struct Args {
    /// Judge those that need an NVIDIA GPU, too
    #[arg(long)]
    gpu: bool,
    /// Judge only those that need an NVIDIA GPU
    #[arg(long, conflicts_with = "gpu")]
    only_gpu: bool,
    /// Only print which kernels there are
    #[arg(long)]
    list: bool,
    /// Judge this kernel only, or those whose names contain this text
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let mut fixtures = selftest::select(&args.names)?;
    if args.only_gpu {
        fixtures.retain(|fixture| fixture.ring != Ring::Cpu);
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
    let rows = selftest::run(&fixtures, no_gpu, session)?;
    let totals = Totals::of(&rows);
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
