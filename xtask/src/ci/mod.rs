//! `cargo xtask ci`: everything that continuous integration proves, step by step.
//!
//! Owns: the order of events in a run, when it stops, and its exit code. Never: knows what a step does.

mod arguments;
mod budget;
mod cheats;
mod checks;
mod cpu;
mod device_code;
mod digest;
mod documents;
mod folders;
mod generated;
mod history;
mod inputs;
mod line;
mod pages;
mod projects;
mod prove;
mod proven;
mod ready;
mod run;
mod rust;
mod sections;
mod steps;
mod table;
mod translation;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use self::arguments::{Request, Whole};
use self::budget::Budgets;
use self::proven::Choice;
use self::run::{Run, Site};
use self::steps::{STEPS, Step};
use self::table::{Failure, Row};
use crate::repo;

/// The task.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    let outcome = match arguments::parse(words, &names) {
        Ok(request) => answer(&request, &repo::root()),
        Err(message) => Err(Stop::Usage(message)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Failed) => ExitCode::FAILURE,
        Err(Stop::Error(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
        Err(Stop::Usage(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

/// A run's end without success.
enum Stop {
    /// The command line is wrong.
    Usage(String),
    /// It could not begin or end.
    Error(String),
    /// A step failed; the last lines say which.
    Failed,
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Error(message)
    }
}

fn answer(request: &Request<'_>, root: &Path) -> Result<(), Stop> {
    match request {
        Request::List => list(root).map_err(Stop::from),
        Request::Record => record(&Site::new(root, digest::current(root))).map_err(Stop::from),
        Request::Whole(whole) => all(whole, root),
        Request::One { step, items } => {
            let step = STEPS.iter().find(|there| there.name == *step);
            let step = step.ok_or_else(|| Stop::Usage("not a step".to_owned()))?;
            run_step(step, items, root)
        }
    }
}

/// Prints the steps.
fn list(root: &Path) -> Result<(), String> {
    let budgets = Budgets::read(root)?;
    println!("{:<12} {:>8} {:>6}", "step", "budget", "items");
    for step in STEPS {
        let budget = budgets.step(step.name).map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s"));
        let items = steps::items(step, root)?.len();
        println!("{:<12} {budget:>8} {items:>6}  {}", step.name, step.about);
    }
    for kind in ["run", "full"] {
        let total = budgets.total(kind).map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s"));
        println!("all, .ci/{kind:<4} {total:>7}");
    }
    Ok(())
}

/// Runs one step. It has no budget: it may have to prepare what earlier steps would have left.
fn run_step(step: &Step, named: &[&str], root: &Path) -> Result<(), Stop> {
    let items = steps::items(step, root)?;
    let run = arguments::chosen(step.name, &items, named).map_err(Stop::Usage)?;
    let site = Site::new(root, digest::current(root));
    if let Err(reason) = &site.digests {
        println!("the outcome is not remembered: {reason}");
    }
    let started = Instant::now();
    let choice = Choice { run, left_out: Vec::new(), unchanged: 0 };
    let row = perform(step, choice, items.len(), &site, None);
    let wall = started.elapsed().as_secs_f64();
    report(&[row], wall, None, &site)?;
    passed(wall, &site);
    Ok(())
}

/// Runs every step.
fn all(whole: &Whole, root: &Path) -> Result<(), Stop> {
    let budgets = Budgets::read(root)?;
    let site = Site::new(root, digest::current(root));
    let leaving_out = if whole.full { None } else { LeavingOut::begin(&site) };
    let started = Instant::now();
    let mut rows = Vec::new();
    let mut left_out = 0;
    for step in STEPS {
        println!(
            "\n=== {}: {} ({:.0} s since the start)",
            step.name,
            step.about,
            started.elapsed().as_secs_f64()
        );
        let items = steps::items(step, root)?;
        let count = items.len();
        let choice = match (&leaving_out, step.turn) {
            (Some(leaving_out), Some(turn)) => leaving_out.choose(step.name, items, turn, &site),
            _ => Choice { run: items, left_out: Vec::new(), unchanged: 0 },
        };
        if !choice.left_out.is_empty() || choice.unchanged > 0 {
            println!("{}", table::left_out(&choice, count));
        }
        left_out += choice.left_out.len();
        let row = perform(step, choice, count, &site, budgets.step(step.name));
        let stops = row.failure.is_some() && !whole.keep_going;
        rows.push(row);
        if stops {
            break;
        }
    }
    // A run that left nothing out, as after a change of the judge, is a full one.
    let kind = if whole.full || left_out == 0 { "full" } else { "run" };
    let wall = started.elapsed().as_secs_f64();
    report(&rows, wall, Some((kind, budgets.total(kind))), &site)?;
    if whole.record {
        // Files may have changed since the start.
        record(&Site::new(root, digest::current(root)))?;
    }
    passed(wall, &site);
    Ok(())
}

/// The rule by which a run leaves items out.
struct LeavingOut {
    proven: sections::Sections,
    commits: usize,
}

impl LeavingOut {
    /// Nothing is left out where git cannot say what has changed.
    fn begin(site: &Site) -> Option<Self> {
        let begun = site.digests.as_ref().map(drop).map_err(Clone::clone).and_then(|()| {
            Ok(Self { proven: proven::read(&site.root)?, commits: history::commits(&site.root)? })
        });
        begun.inspect_err(|reason| println!("nothing is left out: {reason}")).ok()
    }

    fn choose(&self, step: &str, items: Vec<String>, turn: usize, site: &Site) -> Choice {
        let unchanged = |item: &str| {
            let key = (step.to_owned(), item.to_owned());
            let now = site.digests.as_ref().ok().and_then(|digests| digests.get(&key));
            now.is_some_and(|now| proven::digest(&self.proven, step, item) == Some(now))
                && !site.passed.has_failed(step, item)
        };
        let items: Vec<(String, bool)> =
            items.into_iter().map(|item| (item.clone(), unchanged(&item))).collect();
        proven::choose(&items, turn, self.commits)
    }
}

/// Runs some items of a step and says how long that took.
fn perform(step: &Step, choice: Choice, count: usize, site: &Site, budget: Option<u32>) -> Row {
    let (started, cpu) = (Instant::now(), cpu::of_children());
    let chosen = choice.run.len();
    let run = Run { site, step: step.name, complete: chosen == count, items: choice.run };
    let outcome = if chosen == 0 { Ok(Vec::new()) } else { (step.run)(&run) };
    let failure = match outcome {
        Ok(failed) if failed.is_empty() => None,
        Ok(failed) => Some(Failure { items: failed, reason: None }),
        Err(reason) => {
            println!("{reason}");
            Some(Failure { items: Vec::new(), reason: Some(reason) })
        }
    };
    let row = Row {
        step: step.name,
        run: chosen,
        all: count,
        wall: started.elapsed().as_secs_f64(),
        cpu: cpu::of_children() - cpu,
        budget,
        failure,
        named: (!run.complete).then_some(run.items),
    };
    println!("{}", table::line(&row));
    row
}

/// Prints the table, and the last lines of a run that failed.
fn report(rows: &[Row], wall: f64, total: Option<(&str, Option<u32>)>, site: &Site) -> Result<(), Stop> {
    let budget = total.and_then(|(_, budget)| budget);
    println!("\n{}", table::table(rows, wall, budget));
    let mut late: Vec<String> =
        rows.iter().filter_map(|row| budget::excess(row.step, row.wall, row.budget)).collect();
    late.extend(total.and_then(|(kind, budget)| budget::excess(&format!(".ci/{kind}"), wall, budget)));
    let last = table::last_lines(rows, &late);
    if last.is_empty() {
        return Ok(());
    }
    for end in site.ends() {
        println!("{end}\n");
    }
    println!("{last}");
    Err(Stop::Failed)
}

/// Prints the last lines of a run that passed: those of the test runner, where a reader looks first.
fn passed(wall: f64, site: &Site) {
    println!("=== passed in {wall:.0} s");
    for line in site.closing() {
        println!("{line}");
    }
}

/// Writes .ci/proven.toml.
fn record(site: &Site) -> Result<(), String> {
    let digests = site.digests.as_ref().map_err(Clone::clone)?;
    let count = site.passed.record(&site.root, digests)?;
    println!("{}: {count} of {} items passed as they are now", proven::FILE, digests.len());
    Ok(())
}
