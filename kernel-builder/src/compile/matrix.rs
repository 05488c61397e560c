//! All units of all variants, in one pool: what lies in the cache is taken, the rest compiled, and a variant linked as soon
//! as its last unit is there.
//!
//! Owns: the order of units, what is done when one fails. Never: runs a process itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::Unit;

use super::kind::Cost;
use super::label::Label;
use super::product::Origin;
use super::progress::{PendingUnit, ProgressBoard, done};
use super::timeline::{BuildEvent, UnitEnd, UnitOutcome};
use super::{BuildPolicy, CompileError, Job, OnFailure, Outcome, Shop, link, prepare, unit, unit_key};
use crate::base::digest::Digest;
use crate::base::process::ProcessError;
use crate::base::{env, interrupt};

/// Units that are under way: most wait for a lane or for another's result, with a thread for each of their architectures.
const UNDER_WAY: usize = 64;

/// The step under which the history keeps what a unit took as a whole.
const WHOLE: &str = "";

/// One run over all variants.
pub(super) struct Matrix<'a> {
    pub(super) shop: &'a Shop<'a>,
    pub(super) jobs: &'a [Job],
    pub(super) board: &'a ProgressBoard,
    pub(super) conduct: &'a BuildPolicy,
    states: Vec<Mutex<State>>,
}

/// How far a variant is.
struct State {
    /// Units that are not done.
    left: usize,
    errors: Vec<CompileError>,
    outcome: Option<Outcome>,
}

/// A unit that is not in the cache.
struct Pending<'a> {
    job: usize,
    unit: &'a Unit,
    kit: &'a Toolchain,
    key: Digest,
}

enum Task<'a> {
    Compile(Pending<'a>),
    Link(usize),
}

impl<'a> Matrix<'a> {
    pub(super) fn new(
        shop: &'a Shop<'a>,
        jobs: &'a [Job],
        board: &'a ProgressBoard,
        conduct: &'a BuildPolicy,
    ) -> Self {
        let units = |job: &Job| job.kit.as_ref().map_or(0, |_| job.plan.units.len());
        let state = |job: &Job| State { left: units(job), errors: Vec::new(), outcome: None };
        Self { shop, jobs, board, conduct, states: jobs.iter().map(|job| Mutex::new(state(job))).collect() }
    }

    /// Builds every variant; what came of each, in their order.
    pub(super) fn run(self) -> Vec<Outcome> {
        self.board.variants(self.jobs.len());
        for (job, errors) in prepare::prepare(self.shop, self.jobs).into_iter().enumerate() {
            if !errors.is_empty() {
                // Nothing of it can be compiled: it goes straight to its end.
                *lock(&self.states[job]) = State { left: 0, errors, outcome: None };
            }
        }
        let ready = |(job, ..): &(usize, &Toolchain, &Unit)| lock(&self.states[*job]).left > 0;
        let all: Vec<(usize, &Toolchain, &Unit)> = self.units().filter(ready).collect();
        for (job, _, unit) in &all {
            self.board.expect(&self.jobs[*job].plan.id, &unit.name, self.open(*job, unit));
        }
        let pending = Mutex::new(Vec::new());
        each(all, 2 * env::processors(), |(job, kit, unit)| {
            if let Some(task) = self.look_up(job, kit, unit) {
                lock(&pending).push(task);
            }
        });
        let mut pending = pending.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The longest first, so that no lane is left with it at the end; else in the order of the variants.
        let expected = |task: &Pending<'_>| self.open(task.job, task.unit).expected.unwrap_or(0.0);
        let places =
            self.units().enumerate().map(|(place, (job, _, unit))| ((job, unit.name.as_str()), place));
        let places: HashMap<(usize, &str), usize> = places.collect();
        let place =
            |task: &Pending<'_>| (task.job, places.get(&(task.job, task.unit.name.as_str())).copied());
        pending.sort_by(|one, two| {
            expected(two).total_cmp(&expected(one)).then_with(|| place(one).cmp(&place(two)))
        });
        let complete = (0..self.jobs.len()).filter(|job| lock(&self.states[*job]).left == 0);
        let tasks: Vec<Task<'_>> =
            complete.map(Task::Link).chain(pending.into_iter().map(Task::Compile)).collect();
        each(tasks, UNDER_WAY.max(2 * env::processors()), |task| match task {
            Task::Link(job) => self.finish(job),
            Task::Compile(pending) => self.compile(&pending),
        });
        let outcome = |state: Mutex<State>| {
            let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
            state.outcome.unwrap_or(Err(state.errors))
        };
        self.states.into_iter().map(outcome).collect()
    }

    /// What has to be compiled; a variant of Python only has no tools.
    fn units(&self) -> impl Iterator<Item = (usize, &'a Toolchain, &'a Unit)> {
        let jobs = self.jobs;
        let with_kit =
            jobs.iter().enumerate().filter_map(|(job, it)| Some((job, &it.plan, it.kit.as_ref()?)));
        with_kit.flat_map(|(job, plan, kit)| plan.units.iter().map(move |unit| (job, kit, unit)))
    }

    fn open(&self, job: usize, unit: &Unit) -> PendingUnit {
        let label = Label { variant: &self.jobs[job].plan.id, unit: &unit.name, step: WHOLE };
        let class = unit.name.rsplit('.').next().unwrap_or_default().to_owned();
        PendingUnit { class, expected: self.shop.slots.last_cost(label).map(|cost| cost.seconds) }
    }

    /// Takes a unit from the cache; what has to be done where it is not there.
    fn look_up(&self, job: usize, kit: &'a Toolchain, unit: &'a Unit) -> Option<Pending<'a>> {
        let found = unit_key::unit_key(self.shop, unit, kit)
            .and_then(|key| Ok((unit::reuse(self.shop, &self.jobs[job].plan.id, &key, unit, kit)?, key)));
        match found {
            Ok((false, key)) => return Some(Pending { job, unit, kit, key }),
            Ok((true, _)) => self.settle(job, unit, UnitOutcome::Cached, None),
            Err(error) => self.settle(job, unit, UnitOutcome::Failed, Some(error.into())),
        };
        None
    }

    fn compile(&self, task: &Pending<'_>) {
        let Pending { job, unit, kit, key } = task;
        let variant = &self.jobs[*job].plan.id;
        let stopped = interrupt::requested() || self.shop.slots.stopped();
        let made = if stopped {
            Err(ProcessError::Interrupted.into())
        } else {
            unit::compile(self.shop, variant, unit, kit, key)
        };
        let (fate, error) = match made {
            Ok(origin) => (self.fate(variant, unit, origin), None),
            Err(error) => self.refused(variant, error),
        };
        if self.settle(*job, unit, fate, error) {
            self.finish(*job);
        }
    }

    /// Where the object of a unit came from.
    fn fate(&self, variant: &str, unit: &Unit, origin: Origin) -> UnitOutcome {
        let timeline = self.shop.slots.timeline();
        if origin == Origin::Compiled && timeline.took(variant, &unit.name).is_some() {
            UnitOutcome::Compiled
        } else if timeline.compiled(&unit.name) {
            UnitOutcome::Shared
        } else {
            UnitOutcome::Cached
        }
    }

    /// What an error means for the run: a pool that was stopped for another's failure interrupts, too.
    fn refused(&self, variant: &str, error: CompileError) -> (UnitOutcome, Option<CompileError>) {
        let interrupted = matches!(error, CompileError::Process(ProcessError::Interrupted));
        if !interrupted {
            if self.conduct.on_failure == OnFailure::Stop {
                self.shop.slots.stop();
            }
            return (UnitOutcome::Failed, Some(error));
        }
        if interrupt::requested() {
            return (UnitOutcome::Skipped, Some(error));
        }
        (UnitOutcome::Skipped, Some(CompileError::Skipped { variant: variant.to_owned() }))
    }

    /// Keeps what became of a unit, and tells of it; whether it was the variant's last.
    fn settle(&self, job: usize, unit: &Unit, fate: UnitOutcome, error: Option<CompileError>) -> bool {
        let Shop { slots, report, .. } = *self.shop;
        let variant = &self.jobs[job].plan.id;
        let (seconds, memory) = slots.timeline().took(variant, &unit.name).unwrap_or_default();
        // What lay there already says nothing about how long it takes.
        if matches!(fate, UnitOutcome::Compiled | UnitOutcome::Shared) {
            slots.learn(Label { variant, unit: &unit.name, step: WHOLE }, Cost { seconds, memory });
        }
        self.board.unit(variant, &unit.name, fate, seconds);
        let at = slots.timeline().now();
        let end = UnitEnd { variant: variant.clone(), unit: unit.name.clone(), fate, seconds, at };
        slots.tell(|| BuildEvent::Unit(end.clone()));
        slots.timeline().add_unit(end);
        let mut state = lock(&self.states[job]);
        state.left -= 1;
        match error {
            // One sentence is enough for all units that were not begun.
            Some(error) if error.is_stop() && !state.errors.is_empty() => {}
            Some(error) => state.errors.push(error),
            None => {
                let took = Duration::from_secs_f64(seconds);
                let processes = slots.timeline().processes(variant, &unit.name);
                // A program finds the variant alone there, and the processes in the report.
                let detail = match processes {
                    3.. if !report.is_json() => format!("{variant}, sum of {processes} processes"),
                    _ => variant.clone(),
                };
                done(report, "compiled", &detail, &unit.name, took, fate != UnitOutcome::Compiled);
            }
        }
        state.errors.sort_by_key(CompileError::is_stop);
        state.left == 0
    }

    /// Links a variant whose units are done, unless one failed.
    fn finish(&self, job: usize) {
        let errors = std::mem::take(&mut lock(&self.states[job]).errors);
        let outcome = if errors.is_empty() {
            let stopped = self.shop.slots.stopped();
            let linked = if stopped {
                Err(ProcessError::Interrupted.into())
            } else {
                link::finish(self.shop, &self.jobs[job], self.board)
            };
            linked.map_err(|error| self.refused(&self.jobs[job].plan.id, error).1.into_iter().collect())
        } else {
            Err(errors)
        };
        if outcome.is_ok() {
            self.board.variant();
        }
        lock(&self.states[job]).outcome = Some(outcome);
    }
}

/// Does something with each of `things`, on at most so many threads, in their order as far as threads allow; on this one
/// where the machine gives none.
fn each<T: Send>(things: Vec<T>, threads: usize, work: impl Fn(T) + Sync) {
    let threads = threads.min(things.len());
    let next = Mutex::new(things.into_iter());
    let take = || lock(&next).next();
    let all = || {
        while let Some(thing) = take() {
            work(thing);
        }
    };
    std::thread::scope(|scope| {
        let started = (0..threads).take_while(|_| Builder::new().spawn_scoped(scope, all).is_ok()).count();
        if started == 0 {
            all();
        }
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
