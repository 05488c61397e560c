//! `pin`: locks the published kernels that a crate uses.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use miette::Diagnostic;
use serde_json::json;
use thiserror::Error;

use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::{self, Failure, StageError};
use crate::pipeline::build::published::{self, Dependency, Lock, Locked, PublishedError};

/// Lock the published kernels that a Rust crate uses
///
/// Looks up every kernel of [package.metadata.kernelwright.dependencies] in Cargo.toml, and writes rust-kernels.lock
/// beside it: the commit, the variant, the digest of its metadata and the functions. `cargo build` uses exactly these
/// bytes. docs/rust.md is the guide.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  cargo kernelwright pin
  kernelwright pin path/to/crate")]
pub struct Args {
    /// Folder of the crate, or a folder in it
    #[arg(value_name = "DIR", default_value = ".")]
    crate_dir: PathBuf,
}

/// A crate without dependencies, or no crate.
#[derive(Debug, Error, Diagnostic)]
enum PinError {
    #[error("{problem}")]
    #[diagnostic(
        code(compile::bad_dependency),
        help("docs/rust.md has the keys of [package.metadata.kernelwright.dependencies]")
    )]
    Manifest { problem: String },
    #[error("`{}` is not a crate: no Cargo.toml in it or above it", dir.display())]
    #[diagnostic(code(compile::no_crate), help("name the folder of a crate"))]
    NoCrate { dir: PathBuf },
    #[error("`{}` uses no published kernels", manifest.display())]
    #[diagnostic(
        code(compile::no_dependencies),
        help(
            "add [package.metadata.kernelwright.dependencies] with a line such as rms-norm = {{ version = \"1\", from = \"hf:OWNER/rms-norm\" }}"
        )
    )]
    NoDependencies { manifest: PathBuf },
}

impl StageError for PinError {
    fn exit(&self) -> u8 {
        exit::SPEC
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let dir = env::absolute(&args.crate_dir);
    let folder = dir.ancestors().find(|folder| files::exists(&folder.join("Cargo.toml")));
    let folder = folder.ok_or_else(|| PinError::NoCrate { dir: args.crate_dir.clone() })?;
    let dependencies = dependencies(folder)?;
    let locked: Vec<Locked> = dependencies
        .iter()
        .map(|dependency| published::pin(dependency, session))
        .collect::<Result<_, Failure>>()?;
    let path = folder.join(kernelwright_build::LOCK);
    let human: String = locked
        .iter()
        .map(|one| {
            let functions: String = one.functions.iter().map(|function| format!("  {function}\n")).collect();
            format!("{} {} from {}, {}\n{functions}", one.name, one.version, one.from, one.variant)
        })
        .collect();
    let lock = Lock::new(locked);
    let changed = lock.write(&path)?;
    let data = json!({ "lock": path, "changed": changed, "kernels": lock.kernel });
    let state = if changed { "written" } else { "unchanged" };
    session.report.result("pin", &data, &format!("{human}{}: {state}\n", path.display()));
    Ok(())
}

fn dependencies(folder: &Path) -> Result<Vec<Dependency>, Failure> {
    let found = kernelwright_build::dependencies(folder)
        .map_err(|error| PinError::Manifest { problem: error.to_string() })?;
    if found.is_empty() {
        return Err(PinError::NoDependencies { manifest: folder.join("Cargo.toml") }.into());
    }
    Ok(found.iter().map(|text| text.parse()).collect::<Result<_, PublishedError>>()?)
}
