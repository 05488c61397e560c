//! Rules that choose a setting by the lengths of a call, from what settings took at a sample of lengths.
//!
//! Owns: which lengths share a setting, and how far from measured lengths a rule goes. Never: measures; uses a setting that
//! was refused at any length, since nothing tells at which others it would be, too.
//!
//! The rules are the leaves of a decision tree. A node asks for the length of one axis: at most a number, or a multiple of a
//! power of two, as packs of elements need. It splits where that saves most time, measured by the sum of the logarithms of
//! time over the best time of each sample, and only where it saves more than a penalty. Leaving out one sample at a time
//! chooses the penalty, so that a tree is only as deep as other lengths confirm.

use std::collections::BTreeSet;

use super::ranges::REACH;

/// The most settings beside the defaults. Each is compiled into packages.
const MOST_SETTINGS: usize = 6;
/// What a further setting must save, as a logarithm for each sample.
const WORTH: f64 = 0.003;
/// The fewest samples of a rule.
const FEWEST: usize = 2;
/// What a split must save in all, from which the best is chosen.
const PENALTIES: [f64; 6] = [0.02, 0.04, 0.08, 0.16, 0.32, f64::INFINITY];
/// Powers of two of which a length may be a multiple.
const MULTIPLES: [u64; 6] = [2, 4, 8, 16, 32, 64];

/// What is known of one setting at one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cost {
    /// Time, in any unit that all settings of the sample share.
    Known(f64),
    /// It cannot run there, so that the call gets the defaults.
    Defaults,
    /// It was refused.
    Refused,
    /// It was not measured.
    Unknown,
}

/// What all settings took at some lengths. The first setting is that of the defaults.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// The length of each axis.
    pub(crate) lengths: Vec<u64>,
    /// By setting.
    pub(crate) costs: Vec<Cost>,
}

impl Sample {
    /// The least known cost.
    pub(crate) fn best(&self) -> Option<f64> {
        let known = self.costs.iter().filter_map(|cost| match cost {
            Cost::Known(cost) => Some(*cost),
            Cost::Defaults | Cost::Refused | Cost::Unknown => None,
        });
        known.min_by(f64::total_cmp)
    }

    /// The cost of a call with a setting, where it is known.
    pub(crate) fn cost(&self, setting: usize) -> Option<f64> {
        match (self.costs.get(setting)?, self.costs.first()?) {
            (Cost::Known(cost), _) | (Cost::Defaults, Cost::Known(cost)) => Some(*cost),
            _ => None,
        }
    }

    /// The logarithm of a setting's cost over the least one.
    fn loss(&self, setting: usize) -> f64 {
        match (self.cost(setting).or_else(|| self.cost(0)), self.best()) {
            (Some(cost), Some(best)) => (cost / best).ln(),
            _ => 0.0,
        }
    }
}

/// Lengths that share a setting. The first rule that matches a call counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The least and the greatest length of each axis.
    pub(crate) ranges: Vec<[u64; 2]>,
    /// What the length of each axis is a multiple of.
    pub(crate) multiples: Vec<u64>,
    /// The place of the setting.
    pub(crate) setting: usize,
    /// How many samples it has.
    pub(crate) samples: usize,
}

impl Rule {
    fn matches(&self, lengths: &[u64]) -> bool {
        let inside = self.ranges.iter().zip(&self.multiples).zip(lengths);
        inside.into_iter().all(|(([least, greatest], multiple), length)| {
            (least..=greatest).contains(&length) && length.is_multiple_of(*multiple)
        })
    }
}

/// The setting for some lengths: that of the first rule that matches, else the defaults.
pub(crate) fn choose(rules: &[Rule], lengths: &[u64]) -> usize {
    rules.iter().find(|rule| rule.matches(lengths)).map_or(0, |rule| rule.setting)
}

/// The settings beside the defaults that no sample refuses.
pub(crate) fn never_refused<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> Vec<usize> {
    let count = samples.clone().next().map_or(0, |sample| sample.costs.len());
    let is_right = |setting: &usize| samples.clone().all(|sample| sample.costs[*setting] != Cost::Refused);
    (1..count).filter(is_right).collect()
}

/// Rules that lose as little time as few of them can; none if the defaults are as good. `settings` are those that the rules
/// may use beside the defaults.
pub(crate) fn fit(samples: &[Sample], settings: &[usize]) -> Vec<Rule> {
    let settings = worthwhile(samples, settings);
    let all: Vec<&Sample> = samples.iter().collect();
    let left_out = |penalty: &f64| -> f64 {
        let loss = |out: usize| {
            let others: Vec<&Sample> = all
                .iter()
                .enumerate()
                .filter(|(place, _)| *place != out)
                .map(|(_, sample)| *sample)
                .collect();
            all[out].loss(choose(&grow(&others, &settings, *penalty), &all[out].lengths))
        };
        (0..all.len()).map(loss).sum()
    };
    let losses: Vec<f64> = PENALTIES.iter().map(left_out).collect();
    let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
    // Of equal ones the greatest, whose tree is the smallest.
    let chosen = losses.iter().rposition(|loss| *loss <= least + WORTH);
    let rules = grow(&all, &settings, PENALTIES[chosen.unwrap_or(PENALTIES.len() - 1)]);
    if rules.iter().all(|rule| rule.setting == 0) { vec![] } else { rules }
}

/// The settings to choose from: the defaults, and those that save most beside them, one after the other.
fn worthwhile(samples: &[Sample], settings: &[usize]) -> Vec<usize> {
    let mut chosen = vec![0];
    let loss = |chosen: &[usize]| -> f64 {
        let least = |sample: &Sample| {
            chosen.iter().map(|setting| sample.loss(*setting)).fold(f64::INFINITY, f64::min)
        };
        samples.iter().map(least).sum()
    };
    while chosen.len() <= MOST_SETTINGS {
        let with = |setting: usize| loss(&[chosen.as_slice(), &[setting]].concat());
        let rest = settings.iter().copied().filter(|setting| !chosen.contains(setting));
        let best =
            rest.map(|setting| (with(setting), setting)).min_by(|one, other| one.0.total_cmp(&other.0));
        match best {
            Some((left, setting)) if left + WORTH * (samples.len() as f64) < loss(&chosen) => {
                chosen.push(setting)
            }
            _ => break,
        }
    }
    chosen
}

/// The leaves of a tree over all samples.
fn grow(samples: &[&Sample], settings: &[usize], penalty: f64) -> Vec<Rule> {
    let Some(first) = samples.first() else { return vec![] };
    let of_axis = |axis: usize| samples.iter().map(move |sample| sample.lengths[axis]);
    let reach = |axis: usize| {
        let least = of_axis(axis).min().unwrap_or(1) as f64;
        let greatest = of_axis(axis).max().unwrap_or(1) as f64;
        [(least / REACH).ceil() as u64, (greatest * REACH).floor() as u64]
    };
    let ranges = (0..first.lengths.len()).map(reach).collect();
    let node = Node { ranges, multiples: vec![1; first.lengths.len()], samples: samples.to_vec() };
    let mut rules = vec![];
    node.leaves(settings, penalty, &mut rules);
    rules
}

/// A box of lengths with its samples.
struct Node<'a> {
    ranges: Vec<[u64; 2]>,
    multiples: Vec<u64>,
    samples: Vec<&'a Sample>,
}

/// What a node can be split by.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// Whether the length of an axis is at most a number.
    AtMost(usize, u64),
    /// Whether it is a multiple of one.
    MultipleOf(usize, u64),
}

impl Question {
    fn is_true(self, sample: &Sample) -> bool {
        match self {
            Self::AtMost(axis, most) => sample.lengths[axis] <= most,
            Self::MultipleOf(axis, of) => sample.lengths[axis].is_multiple_of(of),
        }
    }
}

impl Node<'_> {
    /// The setting that loses least, with its loss. The defaults unless another one is clearly better.
    fn best(&self, settings: &[usize]) -> (usize, f64) {
        let loss = |setting: usize| self.samples.iter().map(|sample| sample.loss(setting)).sum::<f64>();
        let defaults = (0, loss(0));
        let others =
            settings.iter().filter(|setting| **setting != 0).map(|setting| (*setting, loss(*setting)));
        let best = others.min_by(|one, other| one.1.total_cmp(&other.1));
        best.filter(|best| best.1 + WORTH * (self.samples.len() as f64) < defaults.1).unwrap_or(defaults)
    }

    fn questions(&self) -> Vec<Question> {
        let mut found = vec![];
        for axis in 0..self.ranges.len() {
            let lengths: BTreeSet<u64> = self.samples.iter().map(|sample| sample.lengths[axis]).collect();
            let ordered: Vec<u64> = lengths.into_iter().collect();
            found.extend(ordered.windows(2).map(|pair| {
                // Between two lengths the nearer one counts, by ratio.
                let middle = (pair[0] as f64 * pair[1] as f64).sqrt().floor() as u64;
                Question::AtMost(axis, middle.clamp(pair[0], pair[1] - 1))
            }));
            let further = MULTIPLES.into_iter().filter(|of| *of > self.multiples[axis]);
            found.extend(further.map(|of| Question::MultipleOf(axis, of)));
        }
        found
    }

    fn split(&self, question: Question) -> Option<[Self; 2]> {
        let (yes, no): (Vec<_>, Vec<_>) = self.samples.iter().partition(|sample| question.is_true(sample));
        if yes.len() < FEWEST || no.len() < FEWEST {
            return None;
        }
        let same = |samples| Self { ranges: self.ranges.clone(), multiples: self.multiples.clone(), samples };
        let (mut yes, mut no) = (same(yes), same(no));
        match question {
            Question::AtMost(axis, most) => {
                yes.ranges[axis][1] = most;
                no.ranges[axis][0] = most + 1;
            }
            // What is no multiple comes after the rules for multiples, and needs no condition.
            Question::MultipleOf(axis, of) => yes.multiples[axis] = of,
        }
        Some([yes, no])
    }

    /// The rules of this box, in the order in which they are asked.
    fn leaves(self, settings: &[usize], penalty: f64, rules: &mut Vec<Rule>) {
        let (setting, loss) = self.best(settings);
        let saved = |halves: &[Self; 2]| loss - halves.iter().map(|half| half.best(settings).1).sum::<f64>();
        let splits = self.questions().into_iter().filter_map(|question| self.split(question));
        let best = splits.map(|halves| (saved(&halves), halves)).reduce(|best, other| {
            // Of equal ones the first.
            if other.0 > best.0 { other } else { best }
        });
        match best {
            Some((saved, halves)) if saved > penalty => {
                halves.into_iter().for_each(|half| half.leaves(settings, penalty, rules));
            }
            _ => {
                let samples = self.samples.len();
                rules.push(Rule { ranges: self.ranges, multiples: self.multiples, setting, samples });
            }
        }
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
