//! What ran when, in which lane, with how much memory; and what became of each unit.
//!
//! Owns: the record of one run. Never: draws it; `build_report` does.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::kind::Kind;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// It made what it should.
    Well,
    /// It said no.
    Failed,
    /// The system killed it for want of memory.
    Starved,
    /// The user stopped it, or it could not be started.
    Interrupted,
}

/// One process. Times are seconds since the build began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// For which variant it ran; others may use what it made.
    pub variant: String,
    /// The source, or `link`.
    pub unit: String,
    /// The part of the work.
    pub step: String,
    /// What kind of work.
    pub kind: Kind,
    /// The lane, from 0.
    pub lane: usize,
    /// When it began to wait for a lane.
    pub queued: f64,
    /// When it began.
    pub started: f64,
    /// When it was over.
    pub ended: f64,
    /// Bytes that were set aside for it.
    pub expected_memory: u64,
    /// Bytes that it held at its peak, with all that it started.
    pub peak_memory: u64,
    /// How it ended.
    pub ended_how: Ended,
    /// Whether nothing ran beside it, since memory had not sufficed before.
    pub alone: bool,
    /// The command as a line for a shell.
    pub command: String,
}

impl Step {
    /// Wall-clock time.
    pub fn seconds(&self) -> f64 {
        self.ended - self.started
    }
}

/// What happened to a unit of one variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitOutcome {
    /// Compiled in this run.
    Compiled,
    /// Taken from what another variant's unit of the same content made in this run.
    Shared,
    /// Taken from an earlier run.
    Cached,
    /// Refused by a compiler.
    Failed,
    /// Not begun: the run was stopped.
    Skipped,
}

/// A unit of one variant and what happened to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnitEnd {
    /// The variant.
    pub variant: String,
    /// The source, or `link`.
    pub unit: String,
    /// What happened.
    pub fate: UnitOutcome,
    /// Seconds of its processes together.
    pub seconds: f64,
    /// When it was done, seconds since the build began.
    pub at: f64,
}

/// Memory at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the build began.
    pub at: f64,
    /// Bytes that the pool's processes hold.
    pub held: u64,
    /// Bytes that the machine can still give.
    pub available: u64,
}

/// What is told while it happens.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BuildEvent {
    /// A process began.
    Started {
        /// For which variant.
        variant: String,
        /// The source, or `link`.
        unit: String,
        /// The part of the work.
        step: String,
        /// What kind of work.
        kind: Kind,
    },
    /// A process was killed for want of memory and will run once more.
    Starved {
        /// The source, or `link`.
        unit: String,
        /// Bytes that it was seen to hold.
        peak: u64,
    },
    /// A process is over.
    Ended(Step),
    /// A unit is done.
    Unit(UnitEnd),
}

/// So many samples of memory are kept; then every second one goes, and they become rarer.
const SAMPLES: usize = 600;

/// The record of one run.
#[derive(Debug)]
pub struct Timeline {
    begun: Instant,
    kept: Mutex<TimelineData>,
}

#[derive(Debug, Default)]
struct TimelineData {
    steps: Vec<Step>,
    units: Vec<UnitEnd>,
    samples: Vec<Sample>,
    /// Every so many samples that are offered, one is kept.
    stride: usize,
    offered: usize,
}

impl Timeline {
    /// A record that begins now.
    pub(super) fn start() -> Self {
        Self {
            begun: Instant::now(),
            kept: Mutex::new(TimelineData { stride: 1, ..TimelineData::default() }),
        }
    }

    fn lock_data(&self) -> MutexGuard<'_, TimelineData> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds from the beginning to `when`, to the millisecond.
    pub(super) fn at(&self, when: Instant) -> f64 {
        (when.saturating_duration_since(self.begun).as_secs_f64() * 1e3).round() / 1e3
    }

    /// Seconds from the beginning until now.
    pub(super) fn now(&self) -> f64 {
        self.at(Instant::now())
    }

    /// Keeps a process.
    pub(super) fn add(&self, step: Step) {
        self.lock_data().steps.push(step);
    }

    /// Keeps what became of a unit.
    pub(super) fn add_unit(&self, unit: UnitEnd) {
        self.lock_data().units.push(unit);
    }

    /// Keeps a sample, or leaves it out where there are many.
    pub(super) fn sample(&self, sample: Sample) {
        let mut kept = self.lock_data();
        kept.offered += 1;
        if kept.offered.is_multiple_of(kept.stride) {
            kept.samples.push(sample);
        }
        if kept.samples.len() >= SAMPLES {
            let mut index = 0;
            kept.samples.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            kept.stride *= 2;
        }
    }

    /// Processes in the order of their beginning.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = self.lock_data().steps.clone();
        steps.sort_by(|one, two| one.started.total_cmp(&two.started).then(one.lane.cmp(&two.lane)));
        steps
    }

    /// Whether such a step ran.
    pub(super) fn ran(&self, variant: &str, unit: &str, step: &str) -> bool {
        self.lock_data().steps.iter().any(|it| it.variant == variant && it.unit == unit && it.step == step)
    }

    /// Units by name, then variant.
    pub fn units(&self) -> Vec<UnitEnd> {
        let mut units = self.lock_data().units.clone();
        units.sort_by(|one, two| (&one.unit, &one.variant).cmp(&(&two.unit, &two.variant)));
        units
    }

    /// Memory over time.
    pub fn samples(&self) -> Vec<Sample> {
        self.lock_data().samples.clone()
    }

    /// Seconds that the processes of one unit took together, and the most memory one of them held; nothing when none ran.
    pub(super) fn took(&self, variant: &str, unit: &str) -> Option<(f64, u64)> {
        let kept = self.lock_data();
        let of = kept.steps.iter().filter(|step| step.variant == variant && step.unit == unit);
        of.map(|step| (step.seconds(), step.peak_memory)).reduce(|one, two| (one.0 + two.0, one.1.max(two.1)))
    }

    /// How many processes one unit took.
    pub(super) fn processes(&self, variant: &str, unit: &str) -> usize {
        let of = |step: &&Step| step.variant == variant && step.unit == unit;
        self.lock_data().steps.iter().filter(of).count()
    }

    /// Whether a unit of this name has been compiled in this run, for whichever variant. One that was only preprocessed
    /// was found in the cache.
    pub(super) fn compiled(&self, unit: &str) -> bool {
        let compiles = |step: &Step| step.kind != Kind::Preprocess && step.ended_how == Ended::Well;
        self.lock_data().steps.iter().any(|step| step.unit == unit && compiles(step))
    }

    /// How often each source was compiled, and for how many variants that serves, for sources with more than one.
    pub fn shared(&self) -> Vec<(String, usize, usize)> {
        let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for unit in &self.lock_data().units {
            let count = counts.entry(unit.unit.clone()).or_default();
            match unit.fate {
                UnitOutcome::Compiled => *count = (count.0 + 1, count.1 + 1),
                UnitOutcome::Shared => count.1 += 1,
                UnitOutcome::Cached | UnitOutcome::Failed | UnitOutcome::Skipped => {}
            }
        }
        counts.retain(|_, (compiled, served)| served > compiled);
        counts.into_iter().map(|(unit, (compiled, served))| (unit, compiled, served)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_bounded_and_cover_all_of_the_time() {
        let timeline = Timeline::start();
        for at in 0..10_000 {
            timeline.sample(Sample { at: f64::from(at), held: 0, available: 0 });
        }
        let samples = timeline.samples();
        assert!((SAMPLES / 3..=SAMPLES).contains(&samples.len()), "{}", samples.len());
        assert!(samples[0].at < 100.0 && samples[samples.len() - 1].at > 9_900.0);
        let gaps: Vec<f64> = samples.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
        assert!(gaps.iter().all(|gap| *gap <= 64.0), "{gaps:?}");
    }

    #[test]
    fn what_one_compile_serves_is_counted() {
        let timeline = Timeline::start();
        for (variant, fate) in
            [("a", UnitOutcome::Compiled), ("b", UnitOutcome::Shared), ("c", UnitOutcome::Shared)]
        {
            let (variant, unit) = (variant.to_owned(), "x.cu".to_owned());
            timeline.add_unit(UnitEnd { variant, unit, fate, seconds: 1.0, at: 1.0 });
        }
        assert_eq!(timeline.shared(), [("x.cu".to_owned(), 1, 3)]);
    }
}
