//! `kernelwright-hub`: serves a folder of kernels, and keeps its tokens.
//!
//! Owns: the command line and the exit codes: 0, 1 for what failed, 2 for wrong arguments.
//! Never: prints a token but the one that was just made.
#![expect(clippy::disallowed_macros, reason = "this is the whole of what the program says beside its log")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use kernel_hub::auth::{Anonymous, Tokens, word};
use kernel_hub::causes::chain;
use kernel_hub::server::settings::{LogTo, Settings, Trusted};
use kernel_hub::server::{self, tls};
use kernel_hub::store::{Depth, Store, Sweep};
use kernel_hub::trace;
use kernel_hub::wire::route::Access;

/// Serve a folder of kernels as a hub for Hugging Face's clients
///
/// Set HF_ENDPOINT to the address of this server: `get_kernel`, `kernels lock` and `huggingface_hub` then use it in
/// place of the Hub. To write, also set HF_TOKEN to a token that `token new` printed. docs/hub.md is the guide.
#[derive(Debug, Parser)]
#[command(name = "kernelwright-hub", version, max_term_width = 110)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  kernelwright-hub token new /srv/kernels ci --scope write     create a token and print it once
  kernelwright-hub /srv/kernels                                serve on http://127.0.0.1:8800
  HF_ENDPOINT=http://127.0.0.1:8800 python -c 'from kernels import get_kernel; ...'")]
struct Cli {
    #[command(flatten)]
    serve: Serve,
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Log to standard error: -v for the level info, -vv for debug (docs/logging.md)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Append the log to this file; everything is logged unless -v or KERNELWRIGHT_LOG is set
    #[arg(long, value_name = "FILE", global = true)]
    log_file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// Folder of the hub; created if it does not exist
    #[arg(value_name = "DIR", required = true)]
    dir: Option<PathBuf>,
    /// Address and port to listen on; port 0 chooses a free port and prints it
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8800")]
    bind: SocketAddr,
    /// Access without a token; `write` is only allowed on a loopback address, such as 127.0.0.1
    #[arg(long, value_enum, default_value = "read")]
    anonymous: Anonymous,
    /// Organizations whose kernels load without trust_remote_code, separated by commas; default: all of this hub
    #[arg(long, value_name = "ORG", value_delimiter = ',')]
    trust: Option<Vec<String>>,
    /// Address that clients use, if the hub is behind a proxy
    #[arg(long, value_name = "URL", value_parser = address)]
    public_url: Option<String>,
    /// PEM file with the certificate chain; the hub then serves HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Smallest size in bytes of a file that is sent by LFS, binary or not; default: all binary files, and text from
    /// 1 MiB
    #[arg(long, value_name = "BYTES")]
    lfs_from: Option<u64>,
    /// Largest size of a commit in bytes, without its LFS files
    #[arg(long, value_name = "BYTES", default_value_t = Settings::default().commit_bytes)]
    commit_bytes: u64,
    /// Largest number of files in a commit
    #[arg(long, value_name = "N", default_value_t = Settings::default().commit_files)]
    commit_files: usize,
    /// Largest size of an LFS file in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Settings::default().file_bytes)]
    file_bytes: u64,
    /// Largest number of open connections; further ones wait
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Time limit in seconds to receive the headers of a request
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    head_timeout: u64,
    /// Time in seconds without data after which a connection with an open request is closed
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    stall_timeout: u64,
    /// Time limit in seconds to finish open requests after SIGINT or SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    stop_timeout: u64,
    /// Destination of the access log
    #[arg(long, value_enum, default_value = "stderr")]
    log: LogTo,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create, list and revoke tokens
    #[command(subcommand)]
    Token(TokenVerb),
    /// Check that all files and commits of every branch and tag exist and are unchanged
    ///
    /// Each problem is one line on standard output. The exit code is 1 if there is a problem.
    #[command(after_help = "Examples:
  kernelwright-hub check /srv/kernels
  kernelwright-hub check /srv/kernels && kernelwright-hub gc /srv/kernels")]
    Check {
        /// Folder of the hub; stop its server first
        dir: PathBuf,
    },
    /// Remove stored files that no commit uses, such as those of deleted kernels
    #[command(after_help = "Examples:
  kernelwright-hub gc /srv/kernels --dry-run
  kernelwright-hub gc /srv/kernels")]
    Gc {
        /// Folder of the hub; stop its server first
        dir: PathBuf,
        /// Print how much would be freed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Subcommand)]
enum TokenVerb {
    /// Create a token and print it once
    ///
    /// It cannot be shown again: the hub stores only its digest.
    #[command(after_help = "Examples:
  kernelwright-hub token new /srv/kernels ci --scope write
  kernelwright-hub token new /srv/kernels laptop --scope read --org me")]
    New {
        /// Folder of the hub
        dir: PathBuf,
        /// Name of the token, which logs and commits show
        name: String,
        /// Access that the token gives
        #[arg(long, value_enum)]
        scope: Scope,
        /// Organizations that the token is valid for, separated by commas; default: all
        #[arg(long = "org", value_name = "ORG", value_delimiter = ',')]
        orgs: Vec<String>,
    },
    /// List the tokens with their names, scopes and organizations
    #[command(after_help = "Examples:
  kernelwright-hub token list /srv/kernels
  kernelwright-hub token list /srv/kernels | grep write")]
    List {
        /// Folder of the hub
        dir: PathBuf,
    },
    /// Delete a token; a running server refuses it at once
    #[command(after_help = "Examples:
  kernelwright-hub token revoke /srv/kernels ci
  kernelwright-hub token revoke /srv/kernels laptop")]
    Revoke {
        /// Folder of the hub
        dir: PathBuf,
        /// Name of the token
        name: String,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Scope {
    Read,
    Write,
}

/// An address of http, without a slash at its end.
fn address(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fine = host.is_some_and(|host| {
        !host.starts_with('/') && !host.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
    });
    if fine && !text.contains(['?', '#', '"']) {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err("write it as https://HOST, with a port and a path if needed".to_owned())
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = trace::start(cli.verbose, cli.log_file.as_deref()) {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    let done = match cli.verb {
        Some(Verb::Token(verb)) => token(verb),
        Some(Verb::Check { dir }) => check(&dir),
        Some(Verb::Gc { dir, dry_run }) => gc(&dir, if dry_run { Sweep::DryRun } else { Sweep::Remove }),
        None => serve(cli.serve),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

fn serve(args: Serve) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let dir = args.dir.unwrap_or_default();
    let settings = Settings {
        anonymous: args.anonymous,
        trusted: args.trust.map_or(Trusted::All, Trusted::Only),
        public_url: args.public_url,
        lfs_from: args.lfs_from,
        commit_bytes: args.commit_bytes,
        commit_files: args.commit_files,
        file_bytes: args.file_bytes,
        connections: usize::from(args.connections),
        head_timeout: Duration::from_secs(args.head_timeout.max(1)),
        stall_timeout: Duration::from_secs(args.stall_timeout.max(1)),
        stop_timeout: Duration::from_secs(args.stop_timeout),
        log: args.log,
    };
    let tls = match (&args.tls_certificate, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(tls::acceptor(certificate, key)?),
        _ => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    server::serve(&dir, args.bind, settings, tls, |address| {
        tracing::info!(target: "hub", "kernelwright-hub {} serves {} on {scheme}://{address}", env!("CARGO_PKG_VERSION"), dir.display());
        // Data: whoever started this on port 0 reads it.
        println!("{scheme}://{address}");
    })?;
    Ok(ExitCode::SUCCESS)
}

fn token(verb: TokenVerb) -> Result<ExitCode, Box<dyn std::error::Error>> {
    match verb {
        TokenVerb::New { dir, name, scope, orgs } => {
            let access = match scope {
                Scope::Read => Access::Read,
                Scope::Write => Access::Write,
            };
            println!("{}", Tokens::in_folder(&dir).create(&name, access, orgs)?);
        }
        TokenVerb::List { dir } => {
            for token in Tokens::in_folder(&dir).list()? {
                let orgs = if token.orgs.is_empty() { "*".to_owned() } else { token.orgs.join(",") };
                println!("{} {} {orgs}", token.name, word(token.access));
            }
        }
        TokenVerb::Revoke { dir, name } => Tokens::in_folder(&dir).revoke(&name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn check(dir: &std::path::Path) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let store = Store::existing(dir)?;
    let problems = store.check(Depth::Everything)?;
    for problem in &problems {
        println!("{problem}");
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn gc(dir: &std::path::Path, sweep: Sweep) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let store = Store::existing(dir)?;
    let freed = store.collect(sweep).map_err(|error| {
        format!("failed to read a commit, so nothing was removed: {error}\nhelp: kernelwright-hub check DIR")
    })?;
    let verb = if sweep == Sweep::DryRun { "would free" } else { "freed" };
    println!("{verb} {} bytes in {} files; {} files kept", freed.bytes, freed.files, freed.kept);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments of each command of `program` that begins a line, without the comment behind two blanks.
    fn examples<'a>(text: &'a str, program: &str) -> Vec<Vec<&'a str>> {
        let commands = text.lines().filter_map(|line| line.trim().strip_prefix(program)?.strip_prefix(' '));
        let commands = commands.map(|line| line.split("  ").next().unwrap_or(line));
        commands.map(|line| line.split(' ').filter(|word| !word.is_empty()).collect()).collect()
    }

    #[test]
    fn the_examples_of_the_help_and_of_kernelwright_serve_parse() {
        let help = <Cli as clap::CommandFactory>::command().get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let own = examples(&help, "kernelwright-hub");
        let served = examples(include_str!("../../docs/reference/cli.md"), "kernelwright serve");
        assert!(own.len() >= 2 && served.len() >= 2, "{own:?} {served:?}");
        for words in own.iter().chain(&served) {
            let line = std::iter::once("kernelwright-hub").chain(words.iter().copied());
            assert!(Cli::try_parse_from(line).is_ok(), "{words:?}");
        }
    }
}
