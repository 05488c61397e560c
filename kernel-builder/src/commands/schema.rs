//! `schema`: the JSON Schema of a file, for editors.

use clap::{Args as ClapArgs, ValueEnum};
use kernel_plan::spec::schema;

use crate::base::session::Session;
use crate::exit::Failure;

/// Print the JSON Schema of build.toml or op.toml, for editors
///
/// Even Better TOML and taplo complete, explain and check a file with it: docs/formats.md says how.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  kernelwright schema build > build.schema.json")]
pub struct Args {
    /// The file
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
