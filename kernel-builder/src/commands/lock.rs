//! `lock`: writes into `kernelwright.lock` what each variant is built from, for builders that plan nothing, such as Nix.

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::pipeline::build::lock::{self, Accepts, Locked, Pins};
use crate::pipeline::project;

use super::arguments::{ProjectDir, Selection};

/// Write the variants and their inputs to kernelwright.lock
///
/// Nix and other builders read this file: they build the listed variants, each from the wheels listed with it
/// (docs/nix.md). Missing wheels are downloaded. Entries for other kinds of machines are kept.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright lock my-norm
  kernelwright lock --check --fewer    in CI")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    /// Write and fetch nothing; fail if the lock file does not list the project's variants
    #[arg(long)]
    check: bool,
    /// With --check, accept a lock file with fewer variants, such as one written with selection options
    #[arg(long, requires = "check")]
    fewer: bool,
    /// Also record this machine's C++ compiler; `--locked` then refuses another one on this kind of machine
    #[arg(long, conflicts_with = "check")]
    compiler: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let selection = args.selection.selection();
    if args.check {
        let accepts = if args.fewer { Accepts::Fewer } else { Accepts::Whole };
        let there = lock::check(&project, &selection, accepts, session)?;
        let human = "kernelwright.lock matches the project\n";
        session.report.result("lock", &json!({ "variants": there.rows, "changed": false }), human);
        return Ok(());
    }
    let pins = if args.compiler { Pins::Compiler } else { Pins::Wheels };
    let Locked { variants, compiler, changed } = lock::lock(&project, &selection, pins, session)?;
    let human: String = variants.rows.iter().map(|row| format!("{}\n", row.id)).collect();
    let compiler = compiler.map(|cxx| cxx.described());
    let data = json!({ "variants": variants.rows, "compiler": compiler, "changed": changed });
    session.report.result("lock", &data, &human);
    Ok(())
}
