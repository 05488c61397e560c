//! `layout`: builds as the hub takes them, from a builder that could only judge what can be read from them.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use miette::Diagnostic;
use serde_json::json;
use thiserror::Error;

use crate::base::env;
use crate::base::session::Session;
use crate::compile::artifact;
use crate::exit::{self, Failure, StageError};
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

/// Why there is nothing to lay out, or too much.
#[derive(Debug, Error, Diagnostic)]
pub enum LayoutError {
    /// A folder holds no build, or one whose files are others by now.
    #[error("`{}` holds no build as `build --to` writes it, or its files were changed since", folder.display())]
    #[diagnostic(
        code(package::no_build),
        help("make it: kernelwright build --to {} in the project", folder.display())
    )]
    NoBuild {
        /// The folder.
        folder: PathBuf,
    },
    /// Several builds would be one.
    #[error("`--alone` is for one build, and these are {}", variants.join(", "))]
    #[diagnostic(code(package::not_alone), help("leave `--alone` out: each gets a folder of its own"))]
    NotAlone {
        /// The builds.
        variants: Vec<String>,
    },
}

impl StageError for LayoutError {
    fn exit(&self) -> u8 {
        exit::PACKAGE
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let mut artifacts = Vec::new();
    for folder in &args.from {
        let found = artifact::in_folder(&env::absolute(folder))?;
        if found.is_empty() {
            return Err(LayoutError::NoBuild { folder: folder.clone() }.into());
        }
        artifacts.extend(found);
    }
    if args.alone && artifacts.len() > 1 {
        let variants = artifacts.iter().map(|artifact| artifact.variant.clone()).collect();
        return Err(LayoutError::NotAlone { variants }.into());
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
