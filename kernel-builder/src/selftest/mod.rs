//! Kernels that must be refused, and honest ones that must pass: the judge, judged.
//!
//! Owns: the embedded fixtures (tests/cheats, documented in its README), who is judged when, what a verdict counts for.
//! Never: judges a kernel itself; every one is built and judged by a child process, which is this program again.

mod error;
mod fixture;
pub(crate) mod hand_in;
mod judge;
mod queue;
pub mod render;
mod row;
pub mod through_agent;
mod verdict;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{env, files, interrupt};
use crate::exit::Failure;

pub use error::SelftestError;
use fixture::JudgedBy;
pub use fixture::{Fixture, Ring, Subject, all};
pub use row::Row;
pub use verdict::{Expected, SelftestOutcome};

/// The fixtures that `names` select; all of them when nothing is named. A fixture's own name selects that fixture alone,
/// any other text every fixture whose name contains it. A queue is judged as a whole, also where one of its candidates is
/// named by its place: `queue-2`.
///
/// # Errors
/// A name fits none.
pub fn select(names: &[String]) -> Result<Vec<Fixture>, SelftestError> {
    let all = fixture::all()?;
    let exact: Vec<&String> = names.iter().filter(|name| all.iter().any(|one| one.name == **name)).collect();
    let fits = |one: &Fixture, name: &String| {
        if exact.contains(&name) {
            return one.name == *name;
        }
        let own = format!("{}-", one.name);
        one.name.contains(name.as_str()) || (!one.queue.is_empty() && name.starts_with(&own))
    };
    if let Some(name) = names.iter().find(|name| !all.iter().any(|one| fits(one, name))) {
        return Err(SelftestError::UnknownName { name: name.clone() });
    }
    let wanted = |one: &Fixture| names.is_empty() || names.iter().any(|name| fits(one, name));
    Ok(all.into_iter().filter(wanted).collect())
}

/// Judges the fixtures, as many at a time as the session allows. Fixtures that are timed on the GPU have it to themselves,
/// after those that are only called there. `no_gpu` is why none is run on the GPU, if so.
///
/// # Errors
/// A file could not be written, or ctrl-C. That a kernel could not be judged is a row.
pub fn run(fixtures: &[Fixture], no_gpu: Option<&str>, session: &Session) -> Result<Vec<Row>, Failure> {
    let scratch = files::scratch()?;
    let turns = Mutex::new(JudgeQueue::new(fixtures.iter().map(|fixture| needs(fixture, no_gpu.is_none()))));
    let threads = (env::processors() / session.jobs).max(1);
    let judge_fixture = |fixture: &Fixture| -> Result<Vec<Row>, Failure> {
        let subjects = fixture.subjects()?;
        let away = no_gpu.filter(|_| fixture.ring != Ring::Cpu);
        let seen = match away {
            Some(reason) => vec![(SelftestOutcome::not_run(reason), 0.0); subjects.len()],
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
        // Taken in a statement of its own, so that nobody waits for what is judged.
        let begin = || lock(&turns).begin();
        while let Some(place) = begin() {
            interrupt::check()?;
            // What stops one stops all: what is not begun is left.
            let own = judge_fixture(&fixtures[place]).inspect_err(|_| lock(&turns).stop())?;
            lock(&turns).end(place);
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

/// A fixture's use of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Kernels are called: others may use the GPU at the same time. A kernel that crashes or hangs breaks the context of its
    /// own process alone.
    Calls,
    /// Kernels are timed.
    Clock,
}

fn needs(fixture: &Fixture, has_gpu: bool) -> Needs {
    match (has_gpu && fixture.ring != Ring::Cpu, fixture.judged_by) {
        (false, _) => Needs::Nothing,
        (true, JudgedBy::Verify) if fixture.queue.is_empty() => Needs::Calls,
        (true, _) => Needs::Clock,
    }
}

/// Who is judged next, by their places.
struct JudgeQueue {
    waiting: Vec<(usize, Needs)>,
    running: Vec<(usize, Needs)>,
}

impl JudgeQueue {
    /// The needs of each, in their order.
    fn new(needs: impl Iterator<Item = Needs>) -> Self {
        Self { waiting: needs.enumerate().collect(), running: Vec::new() }
    }

    /// The next one: calls on the GPU first, then timed ones, then the others. `None` while only timed ones are left that
    /// must wait: whoever ends the last call takes them.
    fn begin(&mut self) -> Option<usize> {
        let runs = |of| self.running.iter().any(|(_, needs)| *needs == of);
        let waits = |of| self.waiting.iter().position(|(_, needs)| *needs == of);
        let is_timed = runs(Needs::Clock);
        let next = waits(Needs::Calls)
            .filter(|_| !is_timed)
            .or_else(|| waits(Needs::Clock).filter(|_| !is_timed && !runs(Needs::Calls)))
            .or_else(|| waits(Needs::Nothing))?;
        let next = self.waiting.remove(next);
        self.running.push(next);
        Some(next.0)
    }

    /// That one is judged.
    fn end(&mut self, place: usize) {
        self.running.retain(|(running, _)| *running != place);
    }

    /// Nobody is next.
    fn stop(&mut self) {
        self.waiting.clear();
    }
}

fn lock(turns: &Mutex<JudgeQueue>) -> MutexGuard<'_, JudgeQueue> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a fixture's project to `folder`, judges it there, and removes it. Gives what came of each of its subjects, and
/// the seconds that took.
fn judge_in(
    folder: &Path,
    fixture: &Fixture,
    threads: usize,
    session: &Session,
) -> Result<Vec<(SelftestOutcome, f64)>, Failure> {
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
        let output = judge::screen(&candidates, &project, &temporary, session)?;
        queue::read(fixture.queue.len(), &output)
    };
    files::remove_dir(folder)?;
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_timed_has_the_gpu_to_itself() {
        use Needs::{Calls, Clock, Nothing};
        let mut turns = JudgeQueue::new([Nothing, Clock, Calls, Calls, Clock, Nothing].into_iter());
        assert_eq!([turns.begin(), turns.begin(), turns.begin()], [Some(2), Some(3), Some(0)]);
        turns.end(2);
        assert_eq!((turns.begin(), turns.begin()), (Some(5), None));
        turns.end(3);
        assert_eq!((turns.begin(), turns.begin()), (Some(1), None));
        turns.end(1);
        assert_eq!((turns.begin(), turns.begin()), (Some(4), None));
        let mut turns = JudgeQueue::new([Clock, Nothing].into_iter());
        turns.stop();
        assert_eq!(turns.begin(), None);
    }

    #[test]
    fn a_part_of_a_name_selects_and_an_unknown_one_is_told() {
        let found = select(&["skips-".to_owned()]).unwrap();
        assert!(found.len() > 1 && found.iter().all(|one| one.name.contains("skips-")));
        for name in ["queue", "queue-2-device-hangs"] {
            let found = select(&[name.to_owned()]).unwrap();
            assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["queue"]);
        }
        // `device-skips-tail` contains that name, too.
        let found = select(&["skips-tail".to_owned()]).unwrap();
        assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["skips-tail"]);
        let error = select(&["no-such-cheat".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "no kernel of the suite is called `no-such-cheat`");
    }
}
