//! `completions` and `man`: generated from the same tree as `--help`.

use clap::{Args as ClapArgs, Command};

use crate::base::session::Session;
use crate::exit::Failure;

/// Print a completion script for a shell
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright completions bash > ~/.local/share/bash-completion/completions/kernelwright
  kernelwright completions zsh > ~/.zfunc/_kernelwright")]
pub struct CompletionsArgs {
    /// Shell to write the script for
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Print the manual page of the program or of one command
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright man | man -l -
  kernelwright man make > kernelwright-make.1")]
pub struct ManArgs {
    /// Command to describe, such as `make`; default: the program
    command: Option<String>,
}

/// Prints a completion script of `command`, the whole program.
pub fn completions(args: &CompletionsArgs, mut command: Command, session: &Session) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "kernelwright", &mut script);
    session.report.raw(&String::from_utf8_lossy(&script));
    Ok(())
}

/// Prints a manual page of `program`, or of one of its commands.
pub fn man(args: &ManArgs, program: Command, session: &Session) -> Result<(), Failure> {
    let mut command = program.clone();
    command.build();
    if let Some(name) = &args.command {
        let Some(found) = command.find_subcommand(name) else {
            let error = program.clone().error(
                clap::error::ErrorKind::InvalidValue,
                format!("`{name}` is not a command; `kernelwright --help` lists all commands"),
            );
            let _closed = error.print();
            return Err(Failure::already_reported(crate::exit::USAGE));
        };
        command = found.clone();
    }
    let mut page = Vec::new();
    // Rendering into memory cannot fail.
    let _infallible = clap_mangen::Man::new(command).render(&mut page);
    session.report.raw(&String::from_utf8_lossy(&page));
    Ok(())
}
