//! Kernels that must be refused, and honest ones that must pass: the judge, judged.
//!
//! Owns: the embedded fixtures (tests/cheats, documented in its README), who is judged when, what a verdict counts for.
//! Never: judges a kernel itself; every one is built and judged by a child process, which is this program again.

mod error;
mod fixture;
mod judge;
mod queue;
pub mod render;
mod verdict;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde::Serialize;

use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{env, files, interrupt};
use crate::exit::Failure;

pub use error::SelftestError;
pub use fixture::{Fixture, Ring, Subject, all};
pub use verdict::{Expected, Seen};

/// What came of one kernel.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The fixture's name.
    pub name: String,
    /// What it does, in a few words.
    pub does: String,
    /// What it needs.
    pub ring: Ring,
    /// What must come of it.
    pub expected: Expected,
    /// What came of it.
    pub seen: Seen,
    /// Whether that is right; absent where it was not run.
    pub right: Option<bool>,
    /// The code that caught it: one that it must be refused with, if there is one, else the first.
    pub caught_by: Option<String>,
    /// Wall-clock time of its build and judgement.
    pub seconds: f64,
}

impl Row {
    fn new(subject: Subject, ring: Ring, seen: Seen, seconds: f64) -> Self {
        let Subject { name, does, expected } = subject;
        Self {
            name,
            does,
            ring,
            right: seen.is_right(&expected),
            caught_by: seen.caught_by(&expected).map(str::to_owned),
            expected,
            seen,
            seconds,
        }
    }
}

/// The fixtures whose names contain one of `names`; all of them when nothing is named. A queue is judged as a whole, also
/// where one of its candidates is named by its place: `queue-2`.
///
/// # Errors
/// A name fits none.
pub fn select(names: &[String]) -> Result<Vec<Fixture>, SelftestError> {
    let all = fixture::all()?;
    let fits = |one: &Fixture, name: &String| {
        let own = format!("{}-", one.name);
        one.name.contains(name.as_str()) || (!one.queue.is_empty() && name.starts_with(&own))
    };
    if let Some(name) = names.iter().find(|name| !all.iter().any(|one| fits(one, name))) {
        return Err(SelftestError::UnknownName { name: name.clone() });
    }
    let wanted = |one: &Fixture| names.is_empty() || names.iter().any(|name| fits(one, name));
    Ok(all.into_iter().filter(wanted).collect())
}

/// Judges the fixtures, as many at a time as the session allows; those on the GPU one after the other, since a kernel
/// that hangs or takes all memory there would be felt by its neighbor. `no_gpu` is why those are not run, if so.
///
/// # Errors
/// A file could not be written, or ctrl-C. That a kernel could not be judged is a row.
pub fn run(fixtures: &[Fixture], no_gpu: Option<&str>, session: &Session) -> Result<Vec<Row>, Failure> {
    let scratch = files::scratch()?;
    let next = AtomicUsize::new(0);
    let gpu = Mutex::new(());
    let threads = (env::processors() / session.jobs).max(1);
    let one = |fixture: &Fixture| -> Result<Vec<Row>, Failure> {
        let subjects = fixture.subjects()?;
        let away = no_gpu.filter(|_| fixture.ring != Ring::Cpu);
        let _turn = (fixture.ring != Ring::Cpu && away.is_none()).then(|| gpu.lock());
        let seen = match away {
            Some(reason) => vec![(Seen::not_run(reason), 0.0); subjects.len()],
            None => judge_in(&scratch.path().join(&fixture.name), fixture, threads, session)?,
        };
        let rows = subjects.into_iter().zip(seen);
        let rows: Vec<Row> =
            rows.map(|(subject, (seen, took))| Row::new(subject, fixture.ring, seen, took)).collect();
        for row in rows.iter().filter(|_| away.is_none()) {
            session.report.emit(&Event::Done {
                action: "judged",
                subject: &row.name,
                detail: &render::outcome(row),
                seconds: row.seconds,
                cached: false,
            });
        }
        Ok(rows)
    };
    let work = || {
        let mut rows = Vec::new();
        while let Some((place, fixture)) = taken(&next, fixtures) {
            interrupt::check()?;
            // What stops one stops all: what is not begun is left.
            let own = one(fixture).inspect_err(|_| next.store(fixtures.len(), Ordering::Relaxed))?;
            rows.push((place, own));
        }
        Ok::<_, Failure>(rows)
    };
    let mut rows = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..session.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(found) => rows.extend(found?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, Failure>(())
    })?;
    rows.sort_by_key(|(place, _)| *place);
    Ok(rows.into_iter().flat_map(|(_, own)| own).collect())
}

fn taken<'a>(next: &AtomicUsize, fixtures: &'a [Fixture]) -> Option<(usize, &'a Fixture)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, fixtures.get(place)?))
}

/// Writes a fixture's project to `folder`, judges it there, and removes it. Gives what came of each of its subjects, and
/// the seconds that took.
fn judge_in(
    folder: &Path,
    fixture: &Fixture,
    threads: usize,
    session: &Session,
) -> Result<Vec<(Seen, f64)>, Failure> {
    let started = Instant::now();
    // What the child leaves when it is killed goes with the folder.
    let temporary = folder.join("tmp");
    files::create_dirs(&temporary)?;
    let project = folder.join("project");
    fixture.files()?.write_to(&project)?;
    let seen = if fixture.queue.is_empty() {
        let seen = judge::judge(fixture, &project, &temporary, threads, session)?;
        vec![(seen, started.elapsed().as_secs_f64())]
    } else {
        let candidates = queue::write(fixture, folder)?;
        let said = judge::screen(&candidates, &project, &temporary, session)?;
        queue::read(fixture.queue.len(), &said)
    };
    files::remove_dir(folder)?;
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_name_selects_and_an_unknown_one_is_told() {
        let found = select(&["skips-".to_owned()]).unwrap();
        assert!(found.len() > 1 && found.iter().all(|one| one.name.contains("skips-")));
        for name in ["queue", "queue-2-device-hangs"] {
            let found = select(&[name.to_owned()]).unwrap();
            assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["queue"]);
        }
        let error = select(&["no-such-cheat".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "no kernel of the suite is called `no-such-cheat`");
    }
}
