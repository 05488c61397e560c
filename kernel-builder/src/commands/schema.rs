//! `schema`: the JSON Schema of a file, for editors.

use clap::{Args as ClapArgs, ValueEnum};
use kernel_plan::spec::schema;

use crate::base::session::Session;
use crate::exit::Failure;

/// Print the JSON Schema of build.toml or op.toml, for editors
///
/// With it, Even Better TOML and taplo complete, explain and check a file. docs/reference/editors.md explains the setup.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright schema build > build.schema.json
  kernelwright schema op > op.schema.json")]
pub struct Args {
    /// File to describe
    #[arg(value_enum)]
    file: File,
}

/// A file that has a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum File {
    /// build.toml, edition 5: what to build
    Build,
    /// op.toml, format 1: what the operation means
    Op,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    session.report.raw(&match args.file {
        File::Build => schema::build(),
        File::Op => schema::op(),
    });
    Ok(())
}
