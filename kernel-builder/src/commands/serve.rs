//! `serve`: a hub for a team or a test, by the program `kernelwright-hub`.
//!
//! Owns: finding it, and what to do where it is not.
//! Never: serves; this program has no server in it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use miette::Diagnostic;

use crate::base::become_program::{become_program, installed_with};
use crate::base::session::Session;
use crate::exit::{self, Failure, StageError};

/// The program.
const HUB: &str = "kernelwright-hub";

/// Serve a folder of kernels as a hub for Hugging Face's clients
///
/// Clients use the server if HF_ENDPOINT is set to its address. This command starts the program `kernelwright-hub`,
/// which is installed beside this one, with your arguments; `kernelwright serve -- --help` lists them.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright serve token new /srv/kernels ci --scope write
  kernelwright serve /srv/kernels --bind 127.0.0.1:8800
  HF_ENDPOINT=http://127.0.0.1:8800 kernelwright publish --to hf:me/fast-norm")]
pub struct Args {
    /// The folder, and options of kernelwright-hub
    #[arg(value_name = "FOLDER", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Why there is no hub.
#[derive(Debug, thiserror::Error, Diagnostic)]
enum ServeError {
    #[error("`{HUB}` not found, neither beside this program nor on PATH")]
    #[diagnostic(
        code(serve::absent),
        help(
            "install it from a checkout: cargo install --path kernel-hub; within one, `cargo xtask kernel serve` builds it"
        )
    )]
    Absent,
    #[error("failed to start {}", .program.display())]
    #[diagnostic(code(serve::start), help("reinstall it from a checkout: cargo install --path kernel-hub"))]
    Start {
        program: PathBuf,
        #[source]
        cause: std::io::Error,
    },
}

impl StageError for ServeError {
    fn exit(&self) -> u8 {
        exit::INTERNAL
    }
}

/// Runs the verb: this process becomes the hub.
pub fn run(args: &Args, _session: &Session) -> Result<(), Failure> {
    let program = installed_with(HUB).ok_or(ServeError::Absent)?;
    let cause = become_program(&program, &args.arguments);
    Err(ServeError::Start { program, cause }.into())
}
