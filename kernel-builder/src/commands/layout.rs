//! `layout`: builds as the hub takes them, from a builder that could only judge what can be read from them.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::env;
use crate::base::session::Session;
use crate::compile::artifact;
use crate::exit::Failure;
use crate::package;

use super::project::{self, ProjectDir};

/// Put builds that were not verified into the hub's layout, elsewhere: for builders that cannot run a kernel, such as Nix
///
/// Each must lie in a folder that `build --to` wrote. There is no card beside them, so `publish` takes none of them: what
/// is published is verified first, by `verify` and `package`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    /// A folder that `build --to` wrote; may be given several times
    #[arg(long, value_name = "DIR", required = true)]
    from: Vec<PathBuf>,
    /// Where to put VARIANT/ with metadata.json; it must not be there yet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// There is one build: DIR of --to is the variant's own folder
    #[arg(long)]
    alone: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let mut artifacts = Vec::new();
    for folder in &args.from {
        artifacts.extend(artifact::in_folder(&env::absolute(folder))?);
    }
    let tables = super::package::tables(&project)?;
    let to = env::absolute(&args.to);
    let contents = package::Unverified {
        build: &project.build,
        artifacts: &artifacts,
        provenance: project.provenance(),
        dispatch: &tables,
    };
    package::lay_out(&contents, &to, args.alone)?;
    let variants: Vec<&str> = artifacts.iter().map(|artifact| artifact.variant.as_str()).collect();
    let human = variants.iter().map(|variant| format!("{variant}\n")).collect::<String>();
    session.report.result("layout", &json!({ "dir": to, "variants": variants }), &human);
    Ok(())
}
