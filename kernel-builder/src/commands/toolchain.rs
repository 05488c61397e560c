//! `toolchain`: what the cache holds of compilers, headers and Pythons; fetching it ahead, checking it, removing it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use kernel_plan::units::Version;
use serde_json::json;

use crate::base::session::Session;
use crate::base::{env, files, report};
use crate::exit::{self, Failure};
use crate::pipeline::build::fetch::{self, Pythons};
use crate::pipeline::build::vacant;
use crate::pipeline::project;
use crate::toolchain::{self, Item, Kind};

use super::arguments::{ProjectDir, Selection};

/// Manage the cache of compilers, headers and Python packages
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright toolchain fetch fast-norm                   everything that `make fast-norm` needs
  kernelwright toolchain fetch --torch 2.13 --cuda 12.6    without a project
  kernelwright toolchain gc --older-than 60d --yes         remove entries unused for 60 days")]
pub struct Args {
    #[command(subcommand)]
    what: ToolchainVerb,
}

#[derive(Debug, Subcommand)]
enum ToolchainVerb {
    List(ListArgs),
    Fetch(Box<FetchArgs>),
    Export(ExportArgs),
    Gc(GcArgs),
    Verify(VerifyArgs),
}

/// List the cache entries with their size, last use and state
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright toolchain list
  kernelwright toolchain list --wheels")]
struct ListArgs {
    /// Also show the wheels that toolchains are made of
    #[arg(long)]
    wheels: bool,
}

/// Download all that a project needs, so that `--offline` works
///
/// This covers compilers, headers and the Python packages for `verify` and `load`. Without `--torch` and `--cuda`,
/// the command reads the project in DIR, and adds new wheels to its kernelwright.lock. If DIR is not a project,
/// `--all` fetches everything that this version knows.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright toolchain fetch fast-norm
  kernelwright toolchain fetch --torch 2.13 --cuda 12.6 --no-python")]
struct FetchArgs {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    /// PyTorch release to fetch for, without a project; can be repeated
    #[arg(long, value_name = "MAJOR.MINOR")]
    torch: Vec<Version>,
    /// CUDA release to fetch for, without a project; can be repeated
    #[arg(long, value_name = "MAJOR.MINOR")]
    cuda: Vec<Version>,
    /// Leave out the Python packages for `verify` and `load`
    #[arg(long)]
    no_python: bool,
}

/// Write wheels to a folder, for a machine without a network
///
/// Only the parts that builds need are written. On the other machine, set KERNELWRIGHT_WHEELS to the folder. The wheels
/// are those in the project's kernelwright.lock, each in its own folder; docs/reference/lock.md describes the names.
/// Missing wheels are downloaded.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright toolchain export my-norm --to wheels
  kernelwright toolchain export --lock kernelwright.lock --to wheels \\
    --variant torch-stable-abi210-cpu-x86_64-linux")]
struct ExportArgs {
    #[command(flatten)]
    project: ProjectDir,
    /// Read this lock file instead of the project's
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Export only the inputs of this variant of the lock file; can be repeated
    #[arg(long = "variant", value_name = "ID")]
    variants: Vec<String>,
    /// Export only this wheel, with DIR of `--to` as its folder
    #[arg(long, value_name = "NAME", conflicts_with = "variants")]
    only: Option<String>,
    /// Folder to write to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

/// Remove cache entries that were not used for a given time
///
/// Without `--yes`, they are only listed. Entries in use are never removed. Compiled objects have their own limit.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright toolchain gc
  kernelwright toolchain gc --older-than 60d --yes")]
struct GcArgs {
    /// Minimum time since the last use: a number with h, d or w for hours, days or weeks
    #[arg(long, value_name = "AGE", default_value = "30d", value_parser = age)]
    older_than: u64,
    /// Remove all entries, whatever their age
    #[arg(long, conflicts_with = "older_than")]
    all: bool,
    /// Remove the entries instead of listing them
    #[arg(long)]
    yes: bool,
}

/// Read every cached wheel, and report files that changed
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright toolchain verify
  kernelwright toolchain verify --repair")]
struct VerifyArgs {
    /// Download damaged wheels again
    #[arg(long)]
    repair: bool,
}

/// Seconds.
fn age(text: &str) -> Result<u64, String> {
    let wrong = || "write a number with h, d or w, such as 30d".to_owned();
    let units = [("h", 1), ("d", 24), ("w", 24 * 7)];
    let split = units.iter().find_map(|(unit, hours)| Some((text.strip_suffix(unit)?, hours)));
    let (count, hours) = split.ok_or_else(wrong)?;
    let count: u64 = count.parse().map_err(|_| wrong())?;
    count.checked_mul(hours * 3600).ok_or_else(wrong)
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    match &args.what {
        ToolchainVerb::List(args) => list(args, session),
        ToolchainVerb::Fetch(args) => fetch(args, session),
        ToolchainVerb::Export(args) => export(args, session),
        ToolchainVerb::Gc(args) => gc(args, session),
        ToolchainVerb::Verify(args) => verify(args, session),
    }
}

fn list(args: &ListArgs, session: &Session) -> Result<(), Failure> {
    let items = toolchain::list(session)?;
    let total = toolchain::total(&items);
    let mut human = table(items.iter().filter(|item| args.wheels || item.kind != Kind::Wheel));
    human += &format!("{} on disk in {}\n", report::bytes(total), session.cache.display());
    session.report.result("toolchain", &json!({ "did": "list", "items": items, "bytes": total }), &human);
    Ok(())
}

/// A line a thing.
fn table<'a>(items: impl Iterator<Item = &'a Item>) -> String {
    let rows: Vec<_> = items
        .map(|item| {
            let used = item.used.map_or_else(|| "never used".to_owned(), ago);
            let state = if item.complete { "" } else { "  incomplete" };
            (item.name.clone(), report::bytes(item.bytes), format!("{used}{state}"))
        })
        .collect();
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
    rows.iter().map(|(name, size, used)| format!("{name:<width$}  {size:>9}  {used}\n")).collect()
}

fn ago(used: u64) -> String {
    match files::now().saturating_sub(used) / 86_400 {
        0 => "used today".to_owned(),
        1 => "used yesterday".to_owned(),
        days => format!("used {days} days ago"),
    }
}

fn fetch(args: &FetchArgs, session: &Session) -> Result<(), Failure> {
    let dir = env::absolute(project::folder(&args.project.dir));
    let named = !args.torch.is_empty() || !args.cuda.is_empty();
    let everything = !named && args.selection.all && !files::exists(&dir.join("build.toml"));
    let pythons = if args.no_python { Pythons::LeftOut } else { Pythons::Fetched };
    let fetched = if everything {
        fetch::everything(pythons, session)?
    } else if named {
        fetch::releases(&args.torch, &args.cuda, pythons, session)?
    } else {
        fetch::for_project(&dir, &args.selection.selection(), pythons, session)?
    };
    let human = fetched.iter().map(|name| format!("{name}\n")).collect::<String>();
    session.report.result("toolchain", &json!({ "did": "fetch", "here": fetched }), &human);
    Ok(())
}

fn export(args: &ExportArgs, session: &Session) -> Result<(), Failure> {
    let of_project = || project::folder(&args.project.dir).join("kernelwright.lock");
    let lock = env::absolute(&args.lock.clone().unwrap_or_else(of_project));
    let keys = match &args.only {
        Some(key) => BTreeSet::from([key.clone()]),
        None => toolchain::keys_of(&lock, &args.variants)?,
    };
    let to = env::absolute(&args.to);
    // Of several each has a folder of its own in it.
    args.only.as_ref().map_or(Ok(()), |_| vacant(&to))?;
    let folders = toolchain::export(&lock, &keys, args.only.is_some(), &to, session)?;
    let human: String = folders.iter().map(|folder| format!("{}\n", folder.display())).collect();
    session.report.result("toolchain", &json!({ "did": "export", "folders": folders }), &human);
    Ok(())
}

fn gc(args: &GcArgs, session: &Session) -> Result<(), Failure> {
    let all = toolchain::list(session)?;
    let before = toolchain::total(&all);
    let idle = toolchain::idle(all.clone(), (!args.all).then_some(args.older_than));
    let stays: Vec<Item> =
        all.into_iter().filter(|item| !idle.iter().any(|gone| gone.dir == item.dir)).collect();
    let frees = before.saturating_sub(toolchain::total(&stays));
    let mut human = table(idle.iter());
    if args.yes {
        toolchain::remove(&idle, session)?;
        human += &format!("removed {}, {} freed\n", idle.len(), report::bytes(frees));
    } else if idle.is_empty() {
        human += "nothing to remove\n";
    } else {
        human += &format!("would free {}; to remove these entries, add --yes\n", report::bytes(frees));
    }
    let data = json!({ "did": "gc", "items": idle, "bytes": frees, "removed": args.yes });
    session.report.result("toolchain", &data, &human);
    Ok(())
}

fn verify(args: &VerifyArgs, session: &Session) -> Result<(), Failure> {
    let damaged = toolchain::verify(session, args.repair)?;
    let mut human: String =
        damaged.iter().map(|damage| format!("damaged: {} of {}\n", damage.member, damage.name)).collect();
    human += match (damaged.is_empty(), args.repair) {
        (true, _) => "all cached files are unchanged since their download\n",
        (false, true) => "downloaded again\n",
        (false, false) => "to download them again: kernelwright toolchain verify --repair\n",
    };
    let data = json!({ "did": "verify", "damaged": damaged, "repaired": args.repair && !damaged.is_empty() });
    session.report.result("toolchain", &data, &human);
    if damaged.is_empty() || args.repair { Ok(()) } else { Err(Failure::already_reported(exit::TOOLCHAIN)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_number_and_a_unit() {
        assert_eq!((age("12h"), age("30d"), age("2w")), (Ok(43_200), Ok(2_592_000), Ok(1_209_600)));
        for text in ["", "d", "30", "3m", "-1d", "1é", "99999999999999999999d", "9999999999999999999d"] {
            assert!(age(text).is_err(), "{text}");
        }
    }
}
