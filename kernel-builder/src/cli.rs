//! The command line: global options, the verbs, and what runs which.
//!
//! Owns: clap's tree. Never: does anything but dispatch.

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::base::report::{MessageFormat, Report};
use crate::base::session::Session;
use crate::base::{env, interrupt, process};
use crate::commands;
use crate::exit::{self, Failure};

/// From a PyTorch operation to a published GPU kernel
///
/// A kernel project is a folder with build.toml (what to build, in the format of Hugging Face's kernel-builder) and
/// op.toml (what the operation means). `make` takes it through every stage; each stage is a verb of its own.
#[derive(Debug, Parser)]
#[command(name = "kernelwright", version, propagate_version = true, max_term_width = 110)]
#[command(after_help = "Start here:
  kernelwright doctor                                  what this machine has and lacks
  kernelwright new me/fast-norm --template rms-norm    a complete project in ./fast-norm
  kernelwright make fast-norm                          all stages, from check to load

Exit codes: 2 usage, 10 spec, 11 plan, 12 scaffold, 13 toolchain, 14 compile, 15 verify, 16 bench,
17 package, 18 publish, 19 agent, 20 archive, 21 load, 22 hub, 130 interrupted. In docs/formats.md with the JSON messages.")]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// Options of every verb.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of every command")]
struct Global {
    /// How standard output is written: for people, or one JSON object a line; `check` knows two formats more
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    message_format: MessageFormat,
    /// Say warnings, results and errors only
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Download nothing; fail when something is missing (also: KERNELWRIGHT_OFFLINE=1)
    #[arg(long, global = true)]
    offline: bool,
    /// How many compilers run at a time; default: one a processor
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
    Verify(commands::verify::Args),
    Screen(commands::screen::Args),
    Fill(commands::fill::Args),
    Bench(commands::bench::Args),
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
    Completions(commands::shell::CompletionsArgs),
    Man(commands::shell::ManArgs),
}

/// Runs the program; gives the exit code.
pub fn main() -> u8 {
    if let Some(role) = env::worker_role() {
        return commands::worker::run(&role);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are data, usage errors are talk; clap knows which is which.
            let _closed = error.print();
            return if error.use_stderr() { exit::USAGE } else { exit::SUCCESS };
        }
    };
    let format = cli.global.message_format;
    if matches!(format, MessageFormat::Short | MessageFormat::Github) && !matches!(cli.verb, Verb::Check(_)) {
        let text = "--message-format short and github are for `check` alone; use human or json here";
        let _closed = Cli::command().error(ErrorKind::ArgumentConflict, text).print();
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
            .unwrap_or_else(|| default_jobs(&cli.verb)),
    };
    let result = dispatch(&cli.verb, &session);
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

/// How many processes run at a time when nobody says.
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
        Verb::Verify(args) => commands::verify::run(args, session),
        Verb::Screen(args) => commands::screen::run(args, session),
        Verb::Fill(args) => commands::fill::run(args, session),
        Verb::Bench(args) => commands::bench::run(args, session),
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
        Verb::Schema(args) => commands::schema::run(args, session),
        Verb::Completions(args) => commands::shell::completions(args, session),
        Verb::Man(args) => commands::shell::man(args, session),
    }
}
