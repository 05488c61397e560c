//! `completions` and `man`: generated from the same tree as `--help`.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Command};
use clap_complete::Shell;
use serde_json::json;

use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::Failure;

/// Print or install completion scripts, with the manual pages
///
/// With `--install`, the scripts for bash, fish and zsh and the manual page of every command are written below
/// XDG_DATA_HOME (default: ~/.local/share), for this user alone. Run it again after an update.
#[derive(Debug, ClapArgs)]
#[command(override_usage = "kernelwright completions <SHELL>\n       kernelwright completions --install")]
#[command(after_help = "Examples:
  kernelwright completions --install
  kernelwright completions zsh > ~/.zfunc/_kernelwright")]
pub struct CompletionsArgs {
    /// Shell to write the script for
    #[arg(value_enum, required_unless_present = "install")]
    shell: Option<Shell>,
    /// Install the scripts and the manual pages for this user
    #[arg(long, conflicts_with = "shell")]
    install: bool,
}

/// Where each shell looks for the script, below the folder for data.
const SCRIPTS: &[(Shell, &str)] = &[
    (Shell::Bash, "bash-completion/completions/kernelwright"),
    (Shell::Fish, "fish/vendor_completions.d/kernelwright.fish"),
    (Shell::Zsh, "zsh/site-functions/_kernelwright"),
];

/// Where `man` looks for pages, below the folder for data.
const PAGES: &str = "man/man1";

/// Print the manual page of the program or of one command
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright man | man -l -
  kernelwright man make > kernelwright-make.1")]
pub struct ManArgs {
    /// Command to describe, such as `make`; default: the program
    command: Option<String>,
}

/// Prints a completion script of `command`, the whole program, or installs all of them.
pub fn completions(args: &CompletionsArgs, command: Command, session: &Session) -> Result<(), Failure> {
    match args.shell {
        Some(shell) => session.report.raw(&String::from_utf8_lossy(&script(shell, command))),
        None => install(command, session)?,
    }
    Ok(())
}

fn script(shell: Shell, mut command: Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "kernelwright", &mut script);
    script
}

/// Writes every script and page, and tells what a shell or `man` may lack to find them.
fn install(command: Command, session: &Session) -> Result<(), Failure> {
    let Some(data) = env::data_dir() else {
        let text = "no folder to install to: set HOME or XDG_DATA_HOME";
        let _closed = command.clone().error(clap::error::ErrorKind::Io, text).print();
        return Err(Failure::already_reported(crate::exit::USAGE));
    };
    let scripts =
        SCRIPTS.iter().map(|(shell, place)| (PathBuf::from(place), script(*shell, command.clone())));
    let mut built = command.clone();
    built.build();
    let written: Vec<(PathBuf, Vec<u8>)> = scripts.chain(pages(&built, "kernelwright")).collect();
    for (place, text) in &written {
        files::write(&data.join(place), text)?;
    }
    let zsh = data.join("zsh/site-functions");
    let words = format!(
        "installed the completion scripts of bash, fish and zsh, and {} manual pages, in {}\n\
         open a new shell to use them; zsh needs this line in ~/.zshrc, before compinit: fpath=({} $fpath)\n\
         if `man kernelwright` finds nothing, add this line to your shell's profile: export MANPATH={}:",
        written.len() - SCRIPTS.len(),
        data.display(),
        zsh.display(),
        data.join("man").display(),
    );
    let paths: Vec<&Path> = written.iter().map(|(place, _)| place.as_path()).collect();
    session.report.result("completions", &json!({ "folder": data, "files": paths }), &words);
    Ok(())
}

/// The manual pages of a command and of those below it, with their places.
fn pages(command: &Command, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
    let below = inner.flat_map(|inner| pages(inner, &format!("{name}-{}", inner.get_name())));
    let place = Path::new(PAGES).join(format!("{name}.1"));
    std::iter::once((place, page(command.clone()))).chain(below).collect()
}

fn page(command: Command) -> Vec<u8> {
    let mut page = Vec::new();
    // Rendering into memory cannot fail.
    let _infallible = clap_mangen::Man::new(command).render(&mut page);
    page
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
    session.report.raw(&String::from_utf8_lossy(&page(command)));
    Ok(())
}
