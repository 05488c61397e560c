//! The loop with a judge whose verdicts are scripted.
//!
//! Owns: that judge and its clock. Never: compiles.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::OpSpec;
use kernel_plan::spec::expr::Value;
use kernel_plan::spec::op::{Case, Device as Kind, Purpose};
use kernel_plan::spec::tune::Tuning;

use crate::agent::rules::{Cost, Sample};
use crate::agent::tuned::axes_of;
use crate::agent::tuner::Tuner;
use crate::agent::tuner::prune::{self, Device};
use crate::agent::tuner::space::Space;
use crate::agent::{Agent as _, Budget, Candidate};
use crate::archive::Earlier;
use crate::base::digest::Digest;
use crate::base::files;
use crate::base::interrupt::Interrupted;
use crate::base::random::SplitMix;
use crate::bench::drawn::{Draw, cases_to_search};
use crate::exit::Failure;

use super::compare::compare;
use super::confirm::{Confirmation, confirm};
use super::search::{Figures, Judge, Log, PASSING, Refusal, SearchProgress, Verdict, search};
use super::spread::{self, Winners};

/// Seconds that a verdict takes.
const TAKES: f64 = 0.04;

/// Judges by a formula, in any order, so that nothing leans on one.
struct Scripted<'a> {
    cost: &'a dyn Fn(&Tuning) -> Result<f64, &'static str>,
    taken: Vec<Candidate>,
    now: &'a Cell<f64>,
    noise: f64,
    random: SplitMix,
    is_ready: bool,
    /// Verdicts until ctrl-C.
    left: usize,
    judged: usize,
}

impl<'a> Scripted<'a> {
    fn new(cost: &'a dyn Fn(&Tuning) -> Result<f64, &'static str>, now: &'a Cell<f64>, noise: f64) -> Self {
        let (taken, random) = (vec![], SplitMix(23));
        Self { cost, taken, now, noise, random, is_ready: false, left: usize::MAX, judged: 0 }
    }
}

impl Judge for Scripted<'_> {
    fn take(&mut self, candidates: Vec<Candidate>) {
        self.taken.extend(candidates);
        assert!(self.taken.len() <= self.window(), "more than the window");
    }

    fn ready(&mut self) -> Result<(), Failure> {
        if !self.is_ready {
            // The reference takes its time; it is no part of the budget.
            self.now.set(self.now.get() + 20.0);
            self.is_ready = true;
        }
        Ok(())
    }

    fn verdict(&mut self) -> Result<Option<Verdict>, Failure> {
        assert!(self.is_ready || self.taken.is_empty());
        if self.left == 0 {
            return Err(Interrupted.into());
        }
        if self.taken.is_empty() {
            return Ok(None);
        }
        let candidate = self.taken.swap_remove(self.random.below(self.taken.len()));
        (self.left, self.judged) = (self.left - 1, self.judged + 1);
        self.now.set(self.now.get() + TAKES);
        let unit = (self.random.next() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let noise = 1.0 + self.noise * unit / (candidate.samples as f64).sqrt();
        let outcome = (self.cost)(&candidate.tuning)
            .map(|cost| Figures { seconds: cost * noise * 1e-5, copy_fraction: Some(0.9 / (cost * noise)) })
            .map_err(|code| Refusal { code: code.to_owned(), text: "scripted".to_owned() });
        Ok(Some(Verdict { candidate, outcome }))
    }

    fn clear(&mut self) -> Result<(), Failure> {
        self.taken.clear();
        Ok(())
    }

    fn window(&self) -> usize {
        6
    }
}

fn example() -> (OpSpec, Case) {
    let text = include_str!("../../../../examples/rms-norm-device/op.toml");
    let op = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap();
    let cases = op.cases(Purpose::Bench, Kind::Cuda);
    let case = cases.into_iter().find(|case| case.id.starts_with("llm-4096x4096")).unwrap();
    (op, case)
}

fn value(tuning: &Tuning, name: &str) -> f64 {
    match tuning[&name.parse().unwrap()] {
        Value::Integer(number) => number as f64,
        Value::Boolean(truth) => f64::from(u8::from(truth)),
    }
}

/// Best with 512 threads, 16 bytes, one vector, read once; with 4 bytes and all unrolled it does not compile.
fn cost(tuning: &Tuning) -> Result<f64, &'static str> {
    if value(tuning, "bytes") < 8.0 && value(tuning, "unroll") > 4.0 {
        return Err("compile::device_code");
    }
    let block = (value(tuning, "block") / 512.0).log2().abs();
    let bytes = (16.0 / value(tuning, "bytes")).log2();
    Ok(1.0 + 0.05 * block + 0.1 * bytes + 0.01 * value(tuning, "unroll") + 0.2 * value(tuning, "reread"))
}

struct Runs {
    project: tempfile::TempDir,
    now: Cell<f64>,
}

impl Runs {
    fn new() -> Self {
        Self { project: files::scratch().unwrap(), now: Cell::new(5.0) }
    }

    fn log(&self, earlier: Earlier) -> Log {
        Log::open(self.project.path(), &Digest::blake3(b"task"), earlier).unwrap()
    }

    /// A search of the example, with all candidates that were judged.
    fn search(
        &self,
        judge: &mut Scripted<'_>,
        budget: Budget,
    ) -> (Result<SearchProgress, Failure>, Vec<Tuning>, Vec<Candidate>) {
        let (op, case) = example();
        let device = Device { capability: (9, 0), multiprocessors: 132, threads: 1024, shared: 232_448 };
        let admit = Box::new(|tuning: &Tuning| prune::admit(&op, &case, &device, tuning));
        let space = Space::new(&op.tune.tunables, admit);
        let mut tuner = Tuner::new(space, &[op.tune.default_tuning()], budget.candidates.unwrap_or(100), 1);
        let mut log = self.log(Earlier::Resume);
        let mut judged = Vec::new();
        let mut tell = |_: &SearchProgress, verdict: &Verdict| judged.push(verdict.candidate.clone());
        let found = search(&mut tuner, judge, &mut log, &budget, &|| self.now.get(), &mut tell);
        (found, tuner.best(4), judged)
    }

    fn confirm(&self, judge: &mut Scripted<'_>, best: Vec<Tuning>) -> Option<Confirmation> {
        let (op, _) = example();
        let clock = || self.now.get();
        confirm(best, &op.tune.default_tuning(), judge, 10.0, &clock, &mut SplitMix(3)).unwrap()
    }
}

#[test]
fn a_search_ends_with_its_candidates() {
    let runs = Runs::new();
    let mut judge = Scripted::new(&cost, &runs.now, 0.02);
    let (found, best, judged) = runs.search(&mut judge, Budget { seconds: 1e6, candidates: Some(200) });
    let found = found.unwrap();
    assert_eq!((found.judged, judge.judged, judged.len()), (200, 200, 200));
    let (op, _) = example();
    assert!(
        judged.iter().take(50).any(|one| one.tuning == op.tune.default_tuning()),
        "the defaults are among the first"
    );
    assert!(cost(&best[0]).unwrap() <= 1.03, "{best:?}");
    assert_eq!(found.right + found.refused.values().map(|(count, _)| count).sum::<usize>(), 200);
    assert!(found.refused.keys().eq(["compile::device_code"]), "{:?}", found.refused);
}

#[test]
fn a_search_ends_with_its_time_which_begins_when_the_judge_is_ready() {
    let runs = Runs::new();
    let mut judge = Scripted::new(&cost, &runs.now, 0.02);
    let (found, ..) = runs.search(&mut judge, Budget { seconds: 4.0, candidates: None });
    let found = found.unwrap();
    assert!((100..=101).contains(&found.judged), "{}", found.judged);
    assert!(judge.taken.is_empty(), "what is on its way is forgotten");
}

#[test]
fn an_interrupted_search_goes_on() {
    let runs = Runs::new();
    let mut judge = Scripted { left: 50, ..Scripted::new(&cost, &runs.now, 0.02) };
    let budget = Budget { seconds: 1e6, candidates: Some(100) };
    let (found, _, first) = runs.search(&mut judge, budget);
    assert_eq!((found.unwrap_err().exit, first.len()), (crate::exit::INTERRUPTED, 50));
    let mut judge = Scripted::new(&cost, &runs.now, 0.02);
    let (found, best, second) = runs.search(&mut judge, budget);
    let found = found.unwrap();
    assert_eq!((found.recalled, found.judged), (50, 100));
    let known: BTreeSet<_> = first.iter().map(|one| (one.tuning.clone(), one.samples)).collect();
    let twice = second.iter().find(|one| known.contains(&(one.tuning.clone(), one.samples)));
    assert_eq!(twice, None);
    assert!(cost(&best[0]).unwrap() <= 1.05, "{best:?}");
    assert_eq!(runs.log(Earlier::Resume).earlier().len(), 150);
    assert_eq!(runs.log(Earlier::Forget).earlier().len(), 0);
}

#[test]
fn a_gain_is_confirmed_by_rounds_that_did_not_choose() {
    let runs = Runs::new();
    let mut judge = Scripted::new(&cost, &runs.now, 0.02);
    let (_, best, _) = runs.search(&mut judge, Budget { seconds: 1e6, candidates: Some(150) });
    let found = runs.confirm(&mut judge, best).unwrap();
    let (op, _) = example();
    let (winner, default) = (cost(&found.tuning).unwrap(), cost(&op.tune.default_tuning()).unwrap());
    let gain = found.gain.unwrap();
    assert!(
        gain.low <= default / winner && default / winner <= gain.high,
        "{gain:?} is not {}",
        default / winner
    );
    assert!((found.seconds / (winner * 1e-5) - 1.0).abs() < 0.01);
    assert!((found.default_seconds.unwrap() / (default * 1e-5) - 1.0).abs() < 0.01);
    assert_eq!((found.missed, found.fallen.len()), (None, 0));
}

#[test]
fn what_chance_alone_makes_faster_is_seldom_a_gain() {
    let alike = |_: &Tuning| Ok(1.0);
    let (op, case) = example();
    let device = Device { capability: (9, 0), multiprocessors: 132, threads: 1024, shared: 232_448 };
    let admit = Box::new(|tuning: &Tuning| prune::admit(&op, &case, &device, tuning));
    let mut tuner = Tuner::new(Space::new(&op.tune.tunables, admit), &[], 100, 1);
    let best: Vec<Tuning> = tuner.propose(4).into_iter().map(|one| one.tuning).collect();
    let runs = Runs::new();
    let gains = (0..60).filter(|seed| {
        let mut judge = Scripted::new(&alike, &runs.now, 0.1);
        judge.random = SplitMix(*seed);
        let found = runs.confirm(&mut judge, best.clone()).unwrap();
        assert_eq!(found.tuning == op.tune.default_tuning(), found.gain.is_none());
        found.gain.is_some()
    });
    // An interval of 95% lies above one by chance in one of forty runs, and in some more since rounds end early.
    let gains = gains.count();
    assert!(gains <= 5, "{gains} of 60");
}

#[test]
fn what_is_refused_when_it_is_called_more_often_is_out() {
    let runs = Runs::new();
    let (op, _) = example();
    let mut best = op.tune.default_tuning();
    best.insert("unroll".parse().unwrap(), Value::Integer(1));
    let calls = Cell::new(0);
    let fast = best.clone();
    let falls = move |tuning: &Tuning| {
        if *tuning != fast {
            return cost(tuning);
        }
        calls.set(calls.get() + 1);
        if calls.get() > 15 { Err("verify::guard") } else { Ok(0.5) }
    };
    let mut judge = Scripted::new(&falls, &runs.now, 0.01);
    let found = runs.confirm(&mut judge, vec![best.clone()]).unwrap();
    assert_eq!((found.tuning, found.gain), (op.tune.default_tuning(), None));
    assert_eq!(found.fallen.len(), 1);
    assert_eq!((&found.fallen[0].0, found.fallen[0].1.code.as_str()), (&best, "verify::guard"));
}

#[test]
fn defaults_that_are_wrong_are_replaced_and_a_task_without_a_right_setting_has_none() {
    let runs = Runs::new();
    let (op, _) = example();
    let default = op.tune.default_tuning();
    let wrong = |tuning: &Tuning| if *tuning == default { Err("verify::guard") } else { cost(tuning) };
    let mut other = default.clone();
    other.insert("unroll".parse().unwrap(), Value::Integer(1));
    let mut judge = Scripted::new(&wrong, &runs.now, 0.01);
    let found = runs.confirm(&mut judge, vec![other.clone()]).unwrap();
    assert_eq!((found.tuning, found.default_seconds, found.gain), (other.clone(), None, None));
    let nothing = |_: &Tuning| Err("verify::guard");
    let mut judge = Scripted::new(&nothing, &runs.now, 0.01);
    assert_eq!(runs.confirm(&mut judge, vec![other]), None);
    let (found, best, _) = runs.search(&mut judge, Budget { seconds: 1e6, candidates: Some(30) });
    assert_eq!((found.unwrap().right, best.len()), (0, 0));
}

#[test]
fn a_time_that_noise_hides_is_not_measured() {
    let runs = Runs::new();
    let steady = |_: &Tuning| Ok(1.0);
    let confirmed = |noise: f64| runs.confirm(&mut Scripted::new(&steady, &runs.now, noise), vec![]).unwrap();
    assert_eq!(confirmed(0.02).unknown, None);
    let why = confirmed(5.0).unknown.unwrap();
    assert!(why.starts_with("9 samples say it only to a factor of "), "{why}");
}

#[test]
fn a_gain_that_noise_hides_replaces_no_earlier_setting() {
    let runs = Runs::new();
    let (op, _) = example();
    let (default, mut best) = (op.tune.default_tuning(), op.tune.default_tuning());
    best.insert("unroll".parse().unwrap(), Value::Integer(1));
    // The other setting is steady in the rounds that choose. After them every other call of it takes 50 times as long.
    let calls = Cell::new(0);
    let cost = |tuning: &Tuning| {
        if *tuning == default {
            return Ok(1.0);
        }
        calls.set(calls.get() + 1);
        Ok(if calls.get() > 12 && calls.get() % 2 == 0 { 45.0 } else { 0.9 })
    };
    let found = runs.confirm(&mut Scripted::new(&cost, &runs.now, 0.01), vec![best]).unwrap();
    assert_eq!((&found.tuning, &found.gain), (&default, &None));
    let why = found.unknown.unwrap();
    assert!(why.starts_with("the gain over the defaults is known only to a factor of "), "{why}");
}

fn with(name: &str, number: i64) -> Tuning {
    let mut tuning = example().0.tune.default_tuning();
    tuning.insert(name.parse().unwrap(), Value::Integer(number));
    tuning
}

#[test]
fn settings_are_compared_in_rounds_and_each_has_its_cost() {
    let runs = Runs::new();
    let (op, _) = example();
    let calls = Cell::new(0);
    let cost = |tuning: &Tuning| match value(tuning, "block") as i64 {
        64 => Err("verify::guard"),
        // Busy by chance: no word on the setting.
        128 => Err(PASSING),
        512 => {
            calls.set(calls.get() + 1);
            Ok(3.0)
        }
        1024 => Ok(0.9),
        _ => Ok(1.0),
    };
    let mut settings = vec![Some(op.tune.default_tuning()), None];
    settings.extend([64, 128, 512, 1024].map(|block| Some(with("block", block))));
    let mut judge = Scripted::new(&cost, &runs.now, 0.01);
    let found = compare(&settings, &mut judge, 100.0, &|| runs.now.get(), &mut SplitMix(1)).unwrap();
    let known = |cost: Cost| if let Cost::Known(cost) = cost { cost * 0.9 } else { panic!("{cost:?}") };
    assert!((known(found[0]) - 1.0).abs() < 0.01 && (known(found[5]) - 0.9).abs() < 0.01, "{found:?}");
    assert_eq!((found[1], found[2], found[3]), (Cost::Defaults, Cost::Refused, Cost::Unknown));
    assert_eq!(calls.get(), 1, "what is far behind is timed once");
    let mut judge = Scripted { left: 3, ..Scripted::new(&cost, &runs.now, 0.01) };
    let ended = compare(&settings, &mut judge, 100.0, &|| runs.now.get(), &mut SplitMix(1));
    assert_eq!(ended.unwrap_err().exit, crate::exit::INTERRUPTED);
}

/// A search of drawn lengths, with a judge for whom short rows want few threads and long ones many.
fn spread_of(cost: &dyn Fn(&Case, &Tuning) -> f64, noise: f64) -> Vec<spread::Group> {
    let (op, _) = example();
    let plan = cases_to_search(&op, Kind::Cuda, Draw { seed: 5, count: 72 }).unwrap();
    let device = Device { capability: (9, 0), multiprocessors: 132, threads: 1024, shared: 232_448 };
    let now = Cell::new(0.0);
    let clock = || now.get();
    let mut won = Winners::default();
    for case in &plan[..48] {
        let admit = Box::new(|tuning: &Tuning| prune::admit(&op, case, &device, tuning));
        let mut tuner = Tuner::new(Space::new(&op.tune.tunables, admit), &[op.tune.default_tuning()], 80, 1);
        let of_case = |tuning: &Tuning| Ok(cost(case, tuning));
        let mut judge = Scripted::new(&of_case, &now, noise);
        let project = files::scratch().unwrap();
        let mut log = Log::open(project.path(), &Digest::blake3(b"case"), Earlier::Resume).unwrap();
        let budget = Budget { seconds: 1e6, candidates: Some(80) };
        search(&mut tuner, &mut judge, &mut log, &budget, &clock, &mut |_, _| {}).unwrap();
        won.add(tuner.best(2));
    }
    let pool = won.pool(op.tune.default_tuning(), vec![]);
    let known = |(place, case): (usize, &Case)| {
        let settings: Vec<Option<Tuning>> =
            pool.iter().map(|tuning| spread::runs(&op, case, tuning).then(|| tuning.clone())).collect();
        let of_case = |tuning: &Tuning| Ok(cost(case, tuning));
        let mut judge = Scripted::new(&of_case, &now, noise);
        let costs = compare(&settings, &mut judge, 3.0, &clock, &mut SplitMix(place as u64)).unwrap();
        (place, Sample { lengths: axes_of(&op, case).into_values().collect(), costs })
    };
    let mut groups = BTreeMap::<Vec<usize>, Vec<(usize, Sample)>>::new();
    for found in plan.iter().enumerate().map(known) {
        groups.entry(spread::sizes(&plan[found.0])).or_default().push(found);
    }
    groups.into_values().map(|known| spread::group(&plan, known, pool.clone(), |place| place >= 48)).collect()
}

#[test]
fn rules_for_drawn_lengths_are_kept_if_they_hold_at_others() {
    let cost = |case: &Case, tuning: &Tuning| {
        let hidden = case.axes[&"hidden".parse().unwrap()] as f64;
        let wanted = (hidden / 8.0).clamp(64.0, 1024.0);
        1.0 + 0.2 * (value(tuning, "block") / wanted).log2().abs()
    };
    let groups = spread_of(&cost, 0.01);
    assert_eq!(groups.len(), 2, "one for four bytes, one for two");
    for group in &groups {
        let worth = group.worth.as_ref().unwrap();
        assert!(group.is_kept() && group.rules.len() > 1, "{:?}", group.rules);
        assert!(worth.over_defaults.ratio > 1.05 && worth.of_best > 0.93, "{worth:?}");
        assert!(spread::verdict(group).contains("over the defaults at"), "{}", spread::verdict(group));
    }
    assert_eq!(groups.iter().map(|group| group.dtypes.len()).sum::<usize>(), 3);
}

#[test]
fn nothing_is_written_where_the_defaults_are_as_good() {
    for group in spread_of(&|_, _| 1.0, 0.02) {
        assert!(!group.is_kept(), "{}", spread::verdict(&group));
    }
}
