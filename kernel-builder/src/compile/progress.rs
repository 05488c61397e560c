//! How far the whole matrix is, and how long it may still take.
//!
//! Owns: the counts, the guess of the time that is left, who is told how often. Never: runs anything.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::slots::Slots;
use super::timeline::{BuildEvent, Ended, Sample, UnitOutcome};
use crate::base::memory;
use crate::base::report::{BuildProgress, Event, ProgressKind, Report, bytes};

/// So often memory is looked at and the bar is drawn.
const TICK: Duration = Duration::from_millis(250);
/// So often programs are told, at most.
const TELL_PROGRAMS: Duration = Duration::from_secs(1);
/// So often people without a bar are told.
const TELL_PEOPLE: Duration = Duration::from_secs(10);

/// A unit that is not done yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PendingUnit {
    /// Units of one class take about the same: the ending of the source's name.
    pub(super) class: String,
    /// Seconds of its processes together last time.
    pub(super) expected: Option<f64>,
}

/// What is known of a class in this run.
#[derive(Debug, Clone, Copy, Default)]
struct ClassMean {
    seconds: f64,
    count: usize,
}

/// The counts of one run; shared by all threads.
#[derive(Debug, Default)]
pub(super) struct ProgressBoard {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    standing: BuildProgress,
    open: BTreeMap<(String, String), PendingUnit>,
    means: BTreeMap<String, ClassMean>,
    /// What runs, and since when: variant, unit, step.
    running: Vec<(String, String, String, Instant)>,
}

impl ProgressBoard {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many variants there are.
    pub(super) fn variants(&self, count: usize) {
        self.state().standing.variants = count;
    }

    /// One more unit that has to be done.
    pub(super) fn expect(&self, variant: &str, unit: &str, open: PendingUnit) {
        let mut state = self.state();
        state.standing.total += 1;
        state.open.insert((variant.to_owned(), unit.to_owned()), open);
    }

    /// A unit is done.
    pub(super) fn unit(&self, variant: &str, unit: &str, fate: UnitOutcome, seconds: f64) {
        let mut state = self.state();
        let Some(open) = state.open.remove(&(variant.to_owned(), unit.to_owned())) else { return };
        state.standing.done += usize::from(fate != UnitOutcome::Skipped);
        match fate {
            UnitOutcome::Cached => state.standing.cached += 1,
            UnitOutcome::Shared => state.standing.shared += 1,
            UnitOutcome::Failed => state.standing.failed += 1,
            UnitOutcome::Compiled | UnitOutcome::Skipped => {}
        }
        // What lay there already says nothing about how long the others take.
        if matches!(fate, UnitOutcome::Compiled | UnitOutcome::Shared) {
            let mean = state.means.entry(open.class).or_default();
            mean.seconds += seconds;
            mean.count += 1;
        }
    }

    /// A variant is linked.
    pub(super) fn variant(&self) {
        self.state().standing.variants_done += 1;
    }

    fn note(&self, news: &BuildEvent) {
        let mut state = self.state();
        match news {
            BuildEvent::Started { variant, unit, step, .. } => {
                state.running.push((variant.clone(), unit.clone(), step.clone(), Instant::now()));
            }
            BuildEvent::Ended(ended) => {
                let is = |(variant, unit, step, _): &(String, String, String, Instant)| {
                    *variant == ended.variant && *unit == ended.unit && *step == ended.step
                };
                if let Some(index) = state.running.iter().position(is) {
                    state.running.remove(index);
                }
            }
            BuildEvent::Starved { .. } | BuildEvent::Unit(_) => {}
        }
    }

    /// How far it is now, `seconds` after the beginning.
    pub(super) fn standing(&self, lanes: usize, seconds: f64) -> BuildProgress {
        let state = self.state();
        let name = |(_, unit, step, _): &(String, String, String, Instant)| {
            let short = unit.rsplit('/').next().unwrap_or(unit);
            if step == "compile" || step == "link" { short.to_owned() } else { format!("{short} ({step})") }
        };
        // For a unit that runs, what its processes have taken since they began is done.
        let since = |key: &(String, String)| {
            let of = state.running.iter().filter(|(variant, unit, ..)| (variant, unit) == (&key.0, &key.1));
            of.map(|(.., since)| since.elapsed().as_secs_f64()).sum::<f64>()
        };
        let open: Vec<(&PendingUnit, f64)> =
            state.open.iter().map(|(key, open)| (open, since(key))).collect();
        BuildProgress {
            running: state.running.iter().map(name).collect(),
            seconds,
            left: left(&open, &state.means, lanes),
            ..state.standing.clone()
        }
    }
}

/// Seconds that are left: what each open unit took last time, or what units of its class, or all units, have taken in
/// this run on average, less what it has had, spread over the lanes. Nothing where nothing is known.
fn left(open: &[(&PendingUnit, f64)], means: &BTreeMap<String, ClassMean>, lanes: usize) -> Option<f64> {
    let all = means.values().fold(ClassMean::default(), |sum, mean| ClassMean {
        seconds: sum.seconds + mean.seconds,
        count: sum.count + mean.count,
    });
    let average = |mean: &ClassMean| (mean.count > 0).then(|| mean.seconds / mean.count as f64);
    let mut sum = 0.0;
    let mut longest: f64 = 0.0;
    for (unit, had) in open {
        let expected =
            unit.expected.or_else(|| means.get(&unit.class).and_then(average)).or(average(&all))?;
        let rest = (expected - had).max(0.0);
        sum += rest;
        longest = longest.max(rest);
    }
    Some((sum / lanes.max(1) as f64).max(longest.min(sum)))
}

/// Tells of everything until the pool says nothing more: programs of each process and once a second how far it is, people
/// by a bar, or a line every ten seconds.
pub(super) fn watch(board: &ProgressBoard, slots: &Slots, news: &Receiver<BuildEvent>, report: &Report) {
    let bar = report.draws().then(|| report.progress("compiling", ProgressKind::Units, Some(0)));
    let every = if report.is_json() { TELL_PROGRAMS } else { TELL_PEOPLE };
    let mut told = Instant::now();
    let mut looked: Option<Instant> = None;
    let mut last = BuildProgress::default();
    loop {
        match news.recv_timeout(TICK) {
            Ok(news) => {
                board.note(&news);
                tell(&news, report);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if looked.is_some_and(|looked| looked.elapsed() < TICK) {
            continue;
        }
        looked = Some(Instant::now());
        let at = slots.timeline().now();
        let available = memory::now().map_or(0, |memory| memory.available);
        slots.timeline().sample(Sample { at, held: slots.resident(), available });
        let standing = board.standing(slots.lanes(), at);
        if let Some(bar) = &bar {
            bar.total(standing.total as u64);
            bar.set(standing.done as u64);
            bar.doing(&standing.to_string());
        } else if told.elapsed() >= every {
            told = Instant::now();
            report.emit(&Event::Progress(&standing));
        }
        last = standing;
    }
    // A program is told of the end, where there was anything to do.
    if report.is_json() && last.total > 0 {
        report.emit(&Event::Progress(&board.standing(slots.lanes(), slots.timeline().now())));
    }
}

fn tell(news: &BuildEvent, report: &Report) {
    match news {
        BuildEvent::Started { variant, unit, step, kind } => report.emit(&Event::Unit {
            state: "started",
            variants: &[variant],
            unit,
            step: Some(step),
            kind: Some(kind.name()),
            seconds: None,
            cached: None,
            peak_memory: None,
            ended: None,
        }),
        BuildEvent::Ended(step) => report.emit(&Event::Unit {
            state: "finished",
            variants: &[&step.variant],
            unit: &step.unit,
            step: Some(&step.step),
            kind: Some(step.kind.name()),
            seconds: Some(step.seconds()),
            cached: Some(false),
            peak_memory: Some(step.peak_memory),
            ended: Some(match step.ended_how {
                Ended::Well => "well",
                Ended::Failed => "failed",
                Ended::Starved => "starved",
                Ended::Interrupted => "interrupted",
            }),
        }),
        BuildEvent::Unit(unit) if matches!(unit.fate, UnitOutcome::Cached | UnitOutcome::Shared) => report
            .emit(&Event::Unit {
                state: "finished",
                variants: &[&unit.variant],
                unit: &unit.unit,
                step: None,
                kind: None,
                seconds: Some(0.0),
                cached: Some(true),
                peak_memory: None,
                ended: Some("well"),
            }),
        BuildEvent::Unit(_) => {}
        BuildEvent::Starved { unit, peak } => report.note(format!(
            "{unit} was killed because the machine ran out of memory (it used {}); it runs again alone",
            bytes(*peak)
        )),
    }
}

/// Tells that something was made.
pub(super) fn done(report: &Report, action: &str, detail: &str, subject: &str, took: Duration, cached: bool) {
    // A cached unit is no news for a person; the summary counts it.
    if cached && !report.is_json() {
        return;
    }
    report.emit(&Event::Done { action, subject, detail, seconds: took.as_secs_f64(), cached });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(class: &str, expected: Option<f64>) -> PendingUnit {
        PendingUnit { class: class.to_owned(), expected }
    }

    #[test]
    fn the_time_left_is_what_it_took_last_time_spread_over_the_lanes() {
        let units = [open("cu", Some(30.0)), open("cpp", Some(20.0)), open("cpp", Some(10.0))];
        let all: Vec<(&PendingUnit, f64)> = units.iter().map(|unit| (unit, 0.0)).collect();
        let none = BTreeMap::new();
        assert_eq!(left(&all, &none, 2), Some(30.0));
        assert_eq!(left(&all, &none, 1), Some(60.0));
        assert_eq!(left(&all, &none, 64), Some(30.0), "no sooner than the longest");
        let running: Vec<(&PendingUnit, f64)> = units.iter().map(|unit| (unit, 15.0)).collect();
        assert_eq!(left(&running, &none, 1), Some(20.0), "15 s of each are over");
        assert_eq!(left(&[], &none, 2), Some(0.0));
    }

    #[test]
    fn what_was_never_seen_takes_what_its_class_takes_in_this_run() {
        let board = ProgressBoard::default();
        for unit in ["a.cu", "b.cu", "c.cpp", "d.cpp"] {
            let class = unit.rsplit('.').next().expect("an ending");
            board.expect("v", unit, open(class, None));
        }
        assert_eq!(board.standing(1, 0.0).left, None, "nothing is known");
        board.unit("v", "a.cu", UnitOutcome::Compiled, 40.0);
        assert_eq!(board.standing(1, 0.0).left, Some(120.0));
        board.unit("v", "c.cpp", UnitOutcome::Compiled, 10.0);
        assert_eq!(board.standing(1, 0.0).left, Some(50.0));
        board.unit("v", "d.cpp", UnitOutcome::Cached, 0.0);
        let standing = board.standing(1, 0.0);
        assert_eq!(
            (standing.left, standing.cached),
            (Some(40.0), 1),
            "what was cached says nothing of the others"
        );
        assert_eq!((standing.done, standing.total), (3, 4));
    }
}
