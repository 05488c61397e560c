//! The command line: global options, the verbs, and what runs which.
//!
//! Owns: clap's tree. Never: does anything but dispatch.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::base::report::{MessageFormat, Report};
use crate::base::session::Session;
use crate::base::{env, interrupt, log, process};
use crate::commands;
use crate::exit::{self, Failure};

mod cargo;
mod overview;
#[cfg(test)]
mod tests;

/// Scaffold, build, verify, measure and publish GPU kernels for PyTorch
///
/// A kernel project is a folder with two files. build.toml says what to build, in the format of Hugging Face's
/// kernel-builder. op.toml says what the operation computes. `make` runs every stage; each stage is a command too.
#[derive(Debug, Parser)]
#[command(name = "kernelwright", version, propagate_version = true, max_term_width = 110)]
#[command(override_usage = "kernelwright [OPTIONS] <COMMAND>")]
#[command(after_help = "Examples:
  kernelwright doctor                                  show what is installed and what is missing
  kernelwright new me/fast-norm --template rms-norm    create a project in ./fast-norm
  kernelwright make fast-norm                          run every stage, from check to load

Exit codes: 2 usage, 10 spec, 11 plan, 12 scaffold, 13 toolchain, 14 compile, 15 verify, 16 bench,
17 package, 18 publish, 19 agent, 20 archive, 21 load, 22 hub, 130 interrupted.
docs/reference/exit-codes.md explains them; docs/reference/messages.md describes the JSON output.")]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// Options of every verb.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of every command")]
struct Global {
    /// Format of the output; `short` and `github` are for `check` only
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    message_format: MessageFormat,
    /// Print only warnings, results and errors
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Log requests, commands and waits to standard error; -vv also logs cache decisions (also: KERNELWRIGHT_LOG)
    #[arg(long, short, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Append the log to this file; everything is logged unless -v or KERNELWRIGHT_LOG is set (also: KERNELWRIGHT_LOG_FILE)
    #[arg(long, global = true, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Download nothing, and fail if something is missing (also: KERNELWRIGHT_OFFLINE=1)
    #[arg(long, global = true)]
    offline: bool,
    /// Number of compilers to run at a time; default: one per processor
    #[arg(long, short, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    New(commands::new::Args),
    Templates(commands::templates::Args),
    Generate(commands::generate::Args),
    Check(commands::check::Args),
    Lint(commands::lint::Args),
    Update(commands::update::Args),
    Import(commands::import::Args),
    Export(commands::export::Args),
    Variants(commands::variants::Args),
    Lock(commands::lock::Args),
    Build(commands::build::Args),
    Embed(commands::embed::Args),
    Pin(commands::pin::Args),
    Verify(commands::verify::Args),
    Screen(commands::screen::Args),
    Fill(commands::fill::Args),
    Mcp(commands::mcp::Args),
    Candidates(commands::candidates::Args),
    Submit(commands::submit::Args),
    Skill(commands::skill::Args),
    Bench(commands::bench::Args),
    Profile(commands::profile::Args),
    Inject(commands::inject::Args),
    Reproduce(commands::reproduce::Args),
    Report(commands::report::Args),
    Selftest(commands::selftest::Args),
    Package(commands::package::Args),
    Layout(commands::layout::Args),
    CheckAbi(commands::check_abi::Args),
    VerifyBuild(commands::verify_build::Args),
    Sign(commands::sign::Args),
    Publish(commands::publish::Args),
    Hub(commands::hub::Args),
    Load(commands::load::Args),
    Serve(commands::serve::Args),
    Make(commands::make::Args),
    Toolchain(commands::toolchain::Args),
    Doctor(commands::doctor::Args),
    Gpu(commands::gpu::Args),
    Schema(commands::schema::Args),
    Explain(commands::explain::Args),
    Completions(commands::shell::CompletionsArgs),
    Man(commands::shell::ManArgs),
}

/// Runs the program; gives the exit code.
pub fn main() -> u8 {
    if let Some(role) = env::worker_role() {
        return commands::worker::run(&role);
    }
    let command = || overview::in_groups(Cli::command());
    let parsed = cargo::lines(env::words(), &env::current_dir(), command).and_then(|lines| {
        let parse = |line| Cli::from_arg_matches(&command().try_get_matches_from(line)?);
        lines.into_iter().map(parse).collect::<Result<Vec<Cli>, clap::Error>>()
    });
    match parsed {
        Ok(lines) => {
            // Of several kernels, all are tried unless a person interrupts; the first failure is that of the line.
            let mut first = exit::SUCCESS;
            for line in lines {
                let code = run(line);
                if first == exit::SUCCESS {
                    first = code;
                }
                if code == exit::INTERRUPTED {
                    break;
                }
            }
            first
        }
        Err(error) => {
            // Help and version are data, usage errors are talk; clap knows which is which.
            let _closed = error.print();
            if error.use_stderr() { exit::USAGE } else { exit::SUCCESS }
        }
    }
}

/// Runs one command line; gives its exit code.
fn run(cli: Cli) -> u8 {
    let format = cli.global.message_format;
    let Some(verb) = cli.verb else {
        // Not the data of a command: a script that calls the program without one has made a mistake.
        Report::new(MessageFormat::Human, false).advice(overview::ROADS);
        return exit::USAGE;
    };
    if matches!(format, MessageFormat::Short | MessageFormat::Github) && !matches!(verb, Verb::Check(_)) {
        let text = "only `check` supports --message-format short and github; use human or json here";
        let _closed = overview::in_groups(Cli::command()).error(ErrorKind::ArgumentConflict, text).print();
        return exit::USAGE;
    }
    interrupt::install();
    // A second hook can only come from tests that share the process; the first one stays.
    let _already_set = miette::set_hook(Box::new(|_| {
        // Long lines are left to the terminal: wrapped text cannot be searched or copied.
        Box::new(miette::MietteHandlerOpts::new().wrap_lines(false).build())
    }));
    let session = Session {
        report: Report::new(format, cli.global.quiet),
        cache: env::cache_dir(),
        offline: cli.global.offline || env::text(env::OFFLINE).is_some(),
        jobs: cli
            .global
            .jobs
            .map(usize::from)
            .or_else(env::given_cores)
            .unwrap_or_else(|| default_jobs(&verb)),
    };
    let result = start_log(&cli.global, &session).and_then(|()| dispatch(&verb, &session));
    process::end_forks();
    match result {
        Ok(()) => exit::SUCCESS,
        Err(failure) => {
            for report in &failure.reports {
                session.report.error(failure.exit, report);
            }
            failure.exit
        }
    }
}

fn start_log(global: &Global, session: &Session) -> Result<(), Failure> {
    log::start(global.verbose, global.log_file.as_deref(), &session.report)?;
    let (version, dir) = (env!("CARGO_PKG_VERSION"), env::current_dir());
    tracing::info!(
        target: "kernelwright",
        "kernelwright {version} in {}, cache {}, {} jobs{}: {}",
        dir.display(),
        session.cache.display(),
        session.jobs,
        if session.offline { ", offline" } else { "" },
        log::arguments(),
    );
    Ok(())
}

/// Number of processes at a time without `--jobs`.
fn default_jobs(verb: &Verb) -> usize {
    match verb {
        Verb::Selftest(_) => commands::selftest::at_a_time(env::processors()),
        _ => env::processors(),
    }
}

fn dispatch(verb: &Verb, session: &Session) -> Result<(), Failure> {
    match verb {
        Verb::New(args) => commands::new::run(args, session),
        Verb::Templates(args) => commands::templates::run(args, session),
        Verb::Generate(args) => commands::generate::run(args, session),
        Verb::Check(args) => commands::check::run(args, session),
        Verb::Lint(args) => commands::lint::run(args, session),
        Verb::Update(args) => commands::update::run(args, session),
        Verb::Import(args) => commands::import::run(args, session),
        Verb::Export(args) => commands::export::run(args, session),
        Verb::Variants(args) => commands::variants::run(args, session),
        Verb::Lock(args) => commands::lock::run(args, session),
        Verb::Build(args) => commands::build::run(args, session),
        Verb::Embed(args) => commands::embed::run(args, session),
        Verb::Pin(args) => commands::pin::run(args, session),
        Verb::Verify(args) => commands::verify::run(args, session),
        Verb::Screen(args) => commands::screen::run(args, session),
        Verb::Fill(args) => commands::fill::run(args, session),
        Verb::Mcp(args) => commands::mcp::run(args, session),
        Verb::Candidates(args) => commands::candidates::run(args, session),
        Verb::Submit(args) => commands::submit::run(args, session),
        Verb::Skill(args) => commands::skill::run(args, session),
        Verb::Bench(args) => commands::bench::run(args, session),
        Verb::Profile(args) => commands::profile::run(args, session),
        Verb::Inject(args) => commands::inject::run(args, session),
        Verb::Reproduce(args) => commands::reproduce::run(args, session),
        Verb::Report(args) => commands::report::run(args, session),
        Verb::Selftest(args) => commands::selftest::run(args, session),
        Verb::Package(args) => commands::package::run(args, session),
        Verb::Layout(args) => commands::layout::run(args, session),
        Verb::CheckAbi(args) => commands::check_abi::run(args, session),
        Verb::VerifyBuild(args) => commands::verify_build::run(args, session),
        Verb::Sign(args) => commands::sign::run(args, session),
        Verb::Publish(args) => commands::publish::run(args, session),
        Verb::Hub(args) => commands::hub::run(args, session),
        Verb::Load(args) => commands::load::run(args, session),
        Verb::Serve(args) => commands::serve::run(args, session),
        Verb::Make(args) => commands::make::run(args, session),
        Verb::Toolchain(args) => commands::toolchain::run(args, session),
        Verb::Doctor(args) => commands::doctor::run(args, session),
        Verb::Gpu(args) => commands::gpu::run(args, session),
        Verb::Explain(args) => commands::explain::run(args, session),
        Verb::Schema(args) => commands::schema::run(args, session),
        Verb::Completions(args) => commands::shell::completions(args, Cli::command(), session),
        Verb::Man(args) => commands::shell::man(args, Cli::command(), session),
    }
}
