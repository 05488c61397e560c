//! The pool: how many compilers run at a time, and that memory suffices for them.
//!
//! Owns: waiting for a lane, running one process in it, a second try for one that the system killed for its memory.
//! Never: knows what a command makes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;

use super::admission::{AdmissionQueue, AdmissionRequest, Admitted};
use super::compiler_message;
use super::history::History;
use super::job::OnFailure;
use super::kind::{Cost, Kind};
pub use super::label::Label;
use super::shell_line::shell_line;
use super::timeline::{BuildEvent, Ended, Step, Timeline};
use crate::base::memory::{self, Memory};
use crate::base::process::{self, Finished, Limits, ProcessError};
use crate::base::{files, interrupt};

/// One command may take this long; a kernel with many large instantiations takes minutes, not an hour.
const DEADLINE: Duration = Duration::from_secs(3600);

/// So often the machine is asked again while somebody waits: others give and take memory as well.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// The step that asks a compiler what it would do.
pub(super) const QUESTION: &str = "plan";

/// A number of processes that is bounded by lanes and by memory. Threads may be many; each waits here before it starts
/// one. Nobody waits for anything else while it has a lane.
#[derive(Debug)]
pub struct Slots {
    lanes: usize,
    door: Mutex<AdmissionQueue>,
    changed: Condvar,
    stopped: AtomicBool,
    on_failure: OnFailure,
    /// How much memory there is; a test has its own.
    memory: fn() -> Option<Memory>,
    history: Mutex<History>,
    timeline: Timeline,
    news: Mutex<Option<Sender<BuildEvent>>>,
}

impl Slots {
    /// A pool of `jobs` processes, at least one, that remembers nothing.
    pub fn new(jobs: usize) -> Self {
        Self::with_history(jobs, History::default())
    }

    /// A pool that expects of each step what it took last time.
    pub(super) fn with_history(jobs: usize, history: History) -> Self {
        Self {
            lanes: jobs.max(1),
            door: Mutex::new(AdmissionQueue::new(jobs)),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            on_failure: OnFailure::Continue,
            memory: memory::now,
            history: Mutex::new(history),
            timeline: Timeline::start(),
            news: Mutex::new(None),
        }
    }

    /// The same pool, which a failing process may stop.
    pub(super) fn conducted(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    /// Runs a command when there is a lane and memory for it. A process that the system kills for its memory is run once
    /// more with nothing beside it.
    ///
    /// # Errors
    /// It could not be started, or the user stopped.
    pub fn run(&self, label: Label<'_>, command: &CommandLine) -> Result<Finished, ProcessError> {
        let first = self.once(label, command, false)?;
        if !compiler_message::starved(&first) {
            return Ok(first);
        }
        self.tell(|| BuildEvent::Starved { unit: label.unit.to_owned(), peak: first.peak_resident });
        self.once(label, command, true)
    }

    fn once(&self, label: Label<'_>, command: &CommandLine, alone: bool) -> Result<Finished, ProcessError> {
        let kind = Kind::classify(label, command);
        let expected = lock(&self.history).expected(label, kind);
        let queued = Instant::now();
        let place = self.enter(AdmissionRequest {
            unit: format!("{}\0{}", label.variant, label.unit),
            urgent: kind == Kind::Link,
            alone,
            memory: expected.memory,
        })?;
        let started = Instant::now();
        self.tell(|| BuildEvent::Started {
            variant: label.variant.to_owned(),
            unit: label.unit.to_owned(),
            step: label.step.to_owned(),
            kind,
        });
        let result = process::run_gauged(command, Limits::wall(DEADLINE), &place.admitted.gauge);
        let mut step = Step {
            variant: label.variant.to_owned(),
            unit: label.unit.to_owned(),
            step: label.step.to_owned(),
            kind,
            lane: place.admitted.lane,
            queued: self.timeline.at(queued),
            started: self.timeline.at(started),
            ended: self.timeline.at(Instant::now()),
            expected_memory: expected.memory,
            peak_memory: 0,
            ended_how: Ended::Interrupted,
            alone,
            command: shell_line(command),
        };
        // Before the lane is free: who waits for it shall not begin. A question may be refused, and nothing has failed.
        let failed =
            result.as_ref().is_ok_and(|done| !done.ending.success() && !compiler_message::starved(done));
        if failed && self.on_failure == OnFailure::Stop && label.step != QUESTION {
            self.stop();
        }
        drop(place);
        if let Ok(finished) = &result {
            step.peak_memory = finished.peak_resident;
            step.ended_how = if finished.ending.success() {
                Ended::Well
            } else if compiler_message::starved(finished) {
                Ended::Starved
            } else {
                Ended::Failed
            };
            if finished.ending.success() {
                let cost = Cost { seconds: finished.wall.as_secs_f64(), memory: finished.peak_resident };
                lock(&self.history).learn(label, cost);
            }
        }
        self.tell(|| BuildEvent::Ended(step.clone()));
        self.timeline.add(step);
        result
    }

    /// Waits until there is a lane and memory.
    fn enter(&self, wish: AdmissionRequest) -> Result<EnteredLane<'_>, ProcessError> {
        let mut door = lock(&self.door);
        let id = door.arrive(wish);
        // Leaves the line when the user stops, and the lane when the process is over.
        let leave = LaneGuard { slots: self, id };
        loop {
            if interrupt::requested() || self.stopped() {
                drop(door);
                drop(leave);
                return Err(ProcessError::Interrupted);
            }
            if door.admit(self.free()) {
                self.changed.notify_all();
            }
            if let Some(admitted) = door.admitted(id) {
                return Ok(EnteredLane { admitted, _leave: leave });
            }
            door = self.changed.wait_timeout(door, ASK_AGAIN).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Bytes that may be used: what the machine can give, less what it keeps for everything else.
    fn free(&self) -> u64 {
        (self.memory)().map_or(u64::MAX, |memory| memory.available.saturating_sub(reserve(memory.total)))
    }

    /// Starts nothing any more; what runs comes to its end.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Whether nothing is started any more.
    pub(super) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// How many processes may run at a time.
    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    /// What ran when.
    pub(super) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Bytes that all processes of the pool hold now.
    pub(super) fn resident(&self) -> u64 {
        lock(&self.door).resident()
    }

    /// What a step, or a unit as a whole, took last time.
    pub(super) fn last_cost(&self, label: Label<'_>) -> Option<Cost> {
        lock(&self.history).last_cost(label)
    }

    /// Keeps what a unit as a whole took.
    pub(super) fn learn(&self, label: Label<'_>, cost: Cost) {
        lock(&self.history).learn(label, cost);
    }

    /// Writes what was learned.
    pub(super) fn remember(&self) -> Result<(), files::FileError> {
        lock(&self.history).save()
    }

    /// Whom to tell of every process that starts and ends; nobody any more with nothing.
    pub(super) fn listen(&self, news: Option<Sender<BuildEvent>>) {
        *lock(&self.news) = news;
    }

    /// Tells the listener, if there is one.
    pub(super) fn tell(&self, news: impl FnOnce() -> BuildEvent) {
        if let Some(listener) = &*lock(&self.news) {
            // A listener that has gone wants to know nothing.
            let _gone = listener.send(news());
        }
    }
}

/// A sixteenth of the machine, from half a gigabyte to two: for the system, its caches and this program.
fn reserve(total: u64) -> u64 {
    (total / 16).clamp(512 << 20, 2 << 30)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lane that has been entered; free again when dropped.
struct EnteredLane<'a> {
    admitted: Admitted,
    _leave: LaneGuard<'a>,
}

struct LaneGuard<'a> {
    slots: &'a Slots,
    id: u64,
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        lock(&self.slots.door).leave(self.id);
        self.slots.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: Label<'_> = Label { variant: "v", unit: "a.cpp", step: "compile" };

    fn shell(script: &str) -> CommandLine {
        CommandLine::new("sh").args(["-c", script])
    }

    #[test]
    fn lanes_and_memory_bound_real_processes() {
        // Each counts itself in, waits until nobody else comes or another is there, and says how many there were.
        let folder = files::scratch().unwrap();
        let script = format!("cd '{}'; : > $$; ls | wc -l; sleep 0.1; rm $$", folder.path().display());
        let most = |slots: &Slots| {
            std::thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..6).map(|_| scope.spawn(|| slots.run(LABEL, &shell(&script)).unwrap())).collect();
                let counts = threads.into_iter().map(|thread| thread.join().unwrap().stdout_text());
                counts.map(|count| count.trim().parse::<usize>().unwrap()).max()
            })
        };
        assert!(most(&Slots::new(2)) <= Some(2));
        let mut slots = Slots::new(6);
        slots.memory = || Some(Memory { total: 1 << 30, available: 0 });
        assert_eq!(most(&slots), Some(1), "one runs, however little memory there is");
    }

    #[test]
    fn a_process_that_was_killed_for_its_memory_runs_once_more_alone() {
        let folder = files::scratch().unwrap();
        let again = folder.path().join("again");
        let script = format!("test -e '{0}' && exit 0; : > '{0}'; kill -KILL $$", again.display());
        let slots = Slots::new(4);
        assert!(slots.run(LABEL, &shell(&script)).unwrap().ending.success());
        let steps = slots.timeline().steps();
        assert_eq!(
            steps.iter().map(|step| (step.ended_how, step.alone)).collect::<Vec<_>>(),
            [(Ended::Starved, false), (Ended::Well, true)]
        );
        // A compiler that tells of its child's end, and one that is only wrong.
        let told = "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1";
        assert!(!slots.run(LABEL, &shell(told)).unwrap().ending.success());
        assert_eq!(slots.timeline().steps().len(), 4);
        slots.run(LABEL, &shell("echo 'a.cpp:1:1: error: no' >&2; exit 1")).unwrap();
        assert_eq!(slots.timeline().steps().len(), 5);
    }

    #[test]
    fn where_a_failure_stops_nobody_who_waits_for_the_lane_begins() {
        let begun = |on_failure, step| {
            let folder = files::scratch().unwrap();
            let script = format!("cd '{}'; : > $$; exit 1", folder.path().display());
            let slots = Slots::new(1).conducted(on_failure);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| slots.run(Label { step, ..LABEL }, &shell(&script)));
                }
            });
            files::walk(folder.path(), |_| true).unwrap().len()
        };
        assert_eq!(begun(OnFailure::Stop, "compile"), 1);
        assert_eq!(begun(OnFailure::Stop, QUESTION), 4);
        assert_eq!(begun(OnFailure::Continue, "compile"), 4);
    }

    #[test]
    fn a_stopped_pool_starts_nothing() {
        let slots = Slots::new(1);
        slots.stop();
        assert!(matches!(slots.run(LABEL, &shell("exit 0")), Err(ProcessError::Interrupted)));
        assert!(slots.timeline().steps().is_empty());
    }
}
