//! `layout`: builds as the hub takes them, from a builder that could only judge what can be read from them.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::env;
use crate::base::session::Session;
use crate::exit::Failure;
use crate::pipeline::ship::layout;
use crate::pipeline::{build, project};

use super::arguments::ProjectDir;

/// Arrange unverified builds in the hub's layout, as for Nix
///
/// Use it in builders that cannot run a kernel, such as Nix. Each build must be in a folder that `build --to` wrote.
/// The result has no card, so `publish` refuses it: to publish, use `verify` and `package`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright layout --from built/cpu --from built/cuda --to result
  kernelwright layout my-norm --from built --to result --alone")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    /// Folder that `build --to` wrote; can be repeated
    #[arg(long, value_name = "DIR", required = true)]
    from: Vec<PathBuf>,
    /// Folder for VARIANT/ with its metadata.json; it must not exist
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Use DIR of `--to` as the variant's own folder; for a single build
    #[arg(long)]
    alone: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let to = env::absolute(&args.to);
    build::vacant(&to)?;
    let project = project::load(&args.project.dir, session)?;
    let variants = layout::lay_out(&project, &args.from, &to, args.alone, session)?;
    let human: String = variants.iter().map(|variant| format!("{variant}\n")).collect();
    session.report.result("layout", &json!({ "dir": to, "variants": variants }), &human);
    Ok(())
}
