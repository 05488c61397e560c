//! `generate`: writes the host side of a project anew from op.toml and what was measured.

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::pipeline::create::generate;

use super::arguments::ProjectDir;

/// Regenerate the launcher, binding and Python package from op.toml
///
/// Run it after you change op.toml, the device code or the settings in tuned/; `fill` runs it too. It is for projects
/// whose host code is generated, which `new` sets up for every template without a binding of its own. Files that you
/// wrote are not changed. The list of CUDA sources in build.toml is updated.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright generate my-norm
  kernelwright generate --check    in CI")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    /// Write nothing, and fail if a generated file is out of date
    #[arg(long)]
    check: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let done = generate::refresh(&args.project.dir, args.check, session)?;
    let human = match (done.written.as_slice(), done.removed.as_slice()) {
        ([], []) => "already up to date\n".to_owned(),
        _ => {
            let written = done.written.iter().map(|path| format!("written  {path}\n"));
            written.chain(done.removed.iter().map(|path| format!("removed  {path}\n"))).collect()
        }
    };
    session.report.result("generate", &json!({ "written": done.written, "removed": done.removed }), &human);
    Ok(())
}
