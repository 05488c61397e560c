//! `verify`: builds what is not built, then judges it. A kernel that is wrong or cheats is refused by name.

use clap::Args as ClapArgs;
use kernel_plan::units::Version;
use serde_json::{Value, json};

use crate::base::session::Session;
use crate::compile::nvrtc::Tool;
use crate::exit::Failure;
use crate::package::{self, Status};
use crate::pipeline::build;
use crate::pipeline::judge::torches::{self, TorchAccess};
use crate::pipeline::judge::{self, Judging, device};
use crate::pipeline::project;
use crate::pipeline::project::tuned::Choice;
use crate::toolchain::python::{self, Torch};
use crate::verify::{Evidence, Outcome};

use super::arguments::{self, ProjectDir, Selection};

/// Verify results against a float64 reference, and refuse cheats
///
/// Each kernel runs in its own processes, on new random inputs, with guard bands, poisoned outputs, replay checks and
/// more. Binaries are checked for architectures, registers, spills and portability. Checks that this machine cannot
/// run are listed.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright verify examples/rms-norm --backend cpu
  kernelwright verify my-norm --torch 2.15
  kernelwright verify --device my-norm/backward.toml")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    how: arguments::Judging,
    /// PyTorch release to verify with, for the builds that support it; default: the installed one, or if there is none,
    /// the fewest releases that cover all builds
    #[arg(long, value_name = "MAJOR.MINOR")]
    torch: Option<Version>,
    /// Verify the device code that `[launch]` of op.toml starts; needs no build and no build.toml. DIR may also be a
    /// file such as backward.toml
    #[arg(long, conflicts_with_all = ["torch", "Selection"])]
    device: bool,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH", requires = "device")]
    compiler: Option<Tool>,
    /// Use the defaults of `[tune]` instead of the settings that `fill` found for this GPU
    #[arg(long, requires = "device")]
    untuned: bool,
    /// Also run CUDA kernels under compute-sanitizer, if it is installed: out-of-bounds accesses, races,
    /// uninitialized reads, and barriers that not all threads reach. Verifies again
    #[arg(long)]
    sanitize: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let how = Judging { sanitize: args.sanitize, ..args.how.judging() };
    if args.device {
        let compiler = args.compiler.unwrap_or_default();
        let (project, evidence) =
            device::verify(&args.project.dir, &how, compiler, Choice::new(args.untuned), session)?;
        let title = project.title();
        let status = Status::new(&title, "cuda", package::Judgement::from_evidence(&evidence));
        let row = row(&status, &evidence);
        session.report.result("verify", &json!({ "variants": [row] }), &table(&status, &evidence));
        return device::accept(&project, &evidence);
    }
    let project = project::load(&args.project.dir, session)?;
    if let Some(line) = args.torch {
        // One that cannot be had is told before anything is built.
        python::foreseen(session, Torch::Exactly(&line.to_string()))?;
    }
    let artifacts = build::build(&project, &args.selection.selection(), session)?;
    let extras = judge::extras(&project);
    let groups = match args.torch {
        Some(line) => vec![torches::with_torch(line, artifacts, extras, session)?],
        None => {
            let first = torches::first(&project, &artifacts, extras, session)?;
            torches::groups(artifacts, &first, TorchAccess::Fetched, extras, session)?
        }
    };
    // Evidence is recalled whichever torch it is from, so what is asked for is judged.
    let how = Judging { fresh: how.fresh || args.torch.is_some(), ..how };
    let judged = judge::all(&project, groups, &how, session)?;
    let rows: Vec<_> = judged.iter().map(|judged| row(&judged.status(), judged.verdict.evidence())).collect();
    let human: String =
        judged.iter().map(|judged| table(&judged.status(), judged.verdict.evidence())).collect();
    session.report.result("verify", &json!({ "variants": rows }), &human);
    judge::accept(judged, &project).map(drop)
}

/// One variant, for programs.
fn row(status: &Status, evidence: &Evidence) -> Value {
    let Status { variant, results, judged, .. } = status;
    json!({ "variant": variant, "results": results, "judged": judged, "evidence": evidence })
}

/// Every check of one variant, a line each.
fn table(status: &Status, evidence: &Evidence) -> String {
    let mut text = format!("{}: {}{}\n", status.variant, judge::line(evidence), status.note());
    for check in &evidence.checks {
        let word = match check.outcome {
            Outcome::Passed => "passed",
            Outcome::Refused => "REFUSED",
            Outcome::Skipped => "skipped",
            Outcome::Warned => "warned",
        };
        text += &format!("  {word:<8} {:<20} {}\n", check.name, check.summary);
    }
    text
}
