//! `cargo kernelwright`: becomes the program `kernelwright` beside this file, with the same words. They begin with the name of
//! the subcommand.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "this starts the program, and is not part of it: it must not be linked with all of it"
)]

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// The program's code for a wrong use.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let beside =
        env::current_exe().ok().map(|own| own.with_file_name("kernelwright")).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| "kernelwright".into());
    let error = Command::new(&program).args(env::args_os().skip(1)).exec();
    eprintln!("error: failed to start {}: {error}", program.display());
    eprintln!("help: `cargo install` puts `kernelwright` and `cargo-kernelwright` into the same folder");
    ExitCode::from(USAGE)
}
