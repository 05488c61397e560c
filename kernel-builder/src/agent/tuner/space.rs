//! The settings that may be searched: what `[tune]` spans, less what cannot run.
//!
//! Owns: points, neighbours, and what was left out why. Never: knows what a setting costs.

use std::collections::{BTreeMap, BTreeSet};

use kernel_plan::spec::expr::Value;
use kernel_plan::spec::tune::{Tunable, Tuning};

use super::prune::{PruneReason, Reason};
use crate::base::random::SplitMix;

/// For each tunable the place of its value.
pub(crate) type Point = Vec<usize>;

/// Raw settings up to which all of them are looked at before the search begins.
const LISTED: usize = 50_000;
/// Draws after which a space that is not listed counts as searched.
const DRAWS: usize = 20_000;
/// A draw that begins at a setting which can run draws one tunable in so many anew.
const ANEW: usize = 3;
/// Draws by which the size of such a space is told.
const SAMPLE: usize = 5_000;

/// What can run of a setting.
pub(crate) type Admit<'a> = Box<dyn Fn(&Tuning) -> Result<(), PruneReason> + 'a>;

/// The settings of one task.
pub(crate) struct Space<'a> {
    tunables: &'a [Tunable],
    admit: Admit<'a>,
    /// What can run, where all was looked at.
    listed: Option<Vec<Point>>,
    /// What was looked at, where not all was.
    looked: BTreeMap<Point, bool>,
    /// What of that can run.
    admitted: Vec<Point>,
    /// Whether so many draws found nothing new that there is nothing.
    is_spent: bool,
    pruned: BTreeMap<Reason, (usize, String)>,
}

impl<'a> Space<'a> {
    /// The settings of `tunables` that `admit` lets pass.
    pub(crate) fn new(tunables: &'a [Tunable], admit: Admit<'a>) -> Self {
        let (looked, pruned) = (BTreeMap::new(), BTreeMap::new());
        let mut space =
            Self { tunables, admit, listed: None, looked, admitted: vec![], is_spent: false, pruned };
        if space.raw().is_some_and(|raw| raw <= LISTED) {
            space.listed = Some(space.list());
        }
        space
    }

    /// The product of all choices, where it is a number.
    pub(crate) fn raw(&self) -> Option<usize> {
        self.tunables.iter().try_fold(1usize, |raw, tunable| raw.checked_mul(tunable.values.len()))
    }

    /// How many settings can run, where all were looked at.
    pub(crate) fn count(&self) -> Option<usize> {
        self.listed.as_ref().map(Vec::len)
    }

    /// Every point that can run, where all were looked at.
    pub(super) fn listed(&self) -> Option<&[Point]> {
        self.listed.as_deref()
    }

    /// Every point that can run, in ascending order, looked at one after the other.
    pub(super) fn walk(&mut self) -> Vec<Point> {
        let lengths: Vec<usize> = self.choices().collect();
        let (mut found, mut point) = (Vec::new(), vec![0; lengths.len()]);
        loop {
            if self.look(&point) {
                found.push(point.clone());
            }
            // The last tunable changes fastest, as the digits of a number do.
            let Some(axis) = (0..lengths.len()).rev().find(|axis| point[*axis] + 1 < lengths[*axis]) else {
                return found;
            };
            point[axis] += 1;
            point[axis + 1..].fill(0);
        }
    }

    /// About how many settings can run: counted, or told by those of some thousand draws; nothing where even all choices
    /// are no number.
    pub(super) fn about(&mut self, random: &mut SplitMix) -> Option<usize> {
        if let Some(count) = self.count() {
            return Some(count);
        }
        let raw = self.raw()?;
        let admitted = (0..SAMPLE).filter(|_| {
            let point: Point = self.choices().map(|values| random.below(values)).collect();
            self.admits(&point)
        });
        let admitted = admitted.count();
        Some((raw as f64 * admitted as f64 / SAMPLE as f64) as usize)
    }

    /// Why settings were left out, how many (of those that were looked at), and what was said of the first one.
    pub(crate) fn pruned(&self) -> &BTreeMap<Reason, (usize, String)> {
        &self.pruned
    }

    /// The choices of each tunable.
    pub(super) fn choices(&self) -> impl Iterator<Item = usize> {
        self.tunables.iter().map(|tunable| tunable.values.len())
    }

    /// The setting at a point.
    pub(super) fn tuning(&self, point: &Point) -> Tuning {
        let pairs = self.tunables.iter().zip(point);
        pairs.map(|(tunable, place)| (tunable.name.value.clone(), tunable.values[*place])).collect()
    }

    /// Where a setting lies; nowhere if it is of other tunables or values.
    pub(super) fn point(&self, tuning: &Tuning) -> Option<Point> {
        if tuning.len() != self.tunables.len() {
            return None;
        }
        let place = |tunable: &Tunable| {
            let value = tuning.get(&tunable.name.value)?;
            tunable.values.iter().position(|other| other == value)
        };
        self.tunables.iter().map(place).collect()
    }

    /// Whether the setting at a point can run.
    pub(super) fn admits(&mut self, point: &Point) -> bool {
        if let Some(listed) = &self.listed {
            return listed.binary_search(point).is_ok();
        }
        if let Some(known) = self.looked.get(point) {
            return *known;
        }
        let admitted = self.look(point);
        self.looked.insert(point.clone(), admitted);
        if admitted {
            self.admitted.push(point.clone());
        }
        admitted
    }

    /// A setting that can run and was not proposed; none where there is none left, or none is found. In a space that is not
    /// listed every other draw begins at a setting that can run: where constraints leave one of a thousand, what is drawn
    /// from nothing is hardly ever one.
    pub(super) fn fresh(&mut self, proposed: &BTreeSet<Point>, random: &mut SplitMix) -> Option<Point> {
        if let Some(listed) = &self.listed {
            let count = listed.len();
            if count == 0 || proposed.len() >= count && listed.iter().all(|point| proposed.contains(point)) {
                return None;
            }
            // Many draws, so that no neighbour of what was drawn is preferred; then the first one from anywhere.
            let drawn =
                (0..32).map(|_| &listed[random.below(count)]).find(|point| !proposed.contains(*point));
            let first = random.below(count);
            let mut all = (0..count).map(|step| &listed[(first + step) % count]);
            return drawn.or_else(|| all.find(|point| !proposed.contains(*point))).cloned();
        }
        if self.is_spent {
            return None;
        }
        let found = (0..DRAWS).find_map(|turn| {
            let known = turn % 2 == 1 && !self.admitted.is_empty();
            let from = known.then(|| &self.admitted[random.below(self.admitted.len())]);
            let mut drawn = |(axis, tunable): (usize, &Tunable)| match from {
                Some(from) if random.below(ANEW) > 0 => from[axis],
                _ => random.below(tunable.values.len()),
            };
            let point: Point = self.tunables.iter().enumerate().map(&mut drawn).collect();
            (!proposed.contains(&point) && self.admits(&point)).then_some(point)
        });
        self.is_spent = found.is_none();
        found
    }

    /// What differs from a point in one tunable by one step; for truths and pairs that is the other value.
    pub(super) fn neighbours(&self, point: &Point) -> Vec<Point> {
        let mut found = Vec::new();
        for (axis, place) in point.iter().enumerate() {
            let last = self.tunables[axis].values.len() - 1;
            for other in [place.checked_sub(1), (*place < last).then_some(place + 1)].into_iter().flatten() {
                let mut neighbour = point.clone();
                neighbour[axis] = other;
                found.push(neighbour);
            }
        }
        found
    }

    /// Every point that can run, in ascending order.
    fn list(&mut self) -> Vec<Point> {
        let mut all = vec![Point::new()];
        for tunable in self.tunables {
            let longer = |point: &Point| {
                let point = point.clone();
                (0..tunable.values.len()).map(move |place| point.iter().copied().chain([place]).collect())
            };
            all = all.iter().flat_map(longer).collect();
        }
        all.retain(|point| self.look(point));
        all
    }

    fn look(&mut self, point: &Point) -> bool {
        match (self.admit)(&self.tuning(point)) {
            Ok(()) => true,
            Err(PruneReason { reason, text }) => {
                self.pruned.entry(reason).or_insert((0, text)).0 += 1;
                false
            }
        }
    }
}

/// A setting in words: `block=256 stream=true`.
pub(crate) fn words(tuning: &Tuning) -> String {
    let words = tuning.iter().map(|(name, value): (_, &Value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(super) mod tests {
    use kernel_plan::spec::Spanned;

    use super::*;

    /// Tunables `a`, `b`, .. with so many values each, which are their own places.
    pub(in crate::agent::tuner) fn tunables(lengths: &[usize]) -> Vec<Tunable> {
        let names = "abcdefghijklmnop".chars();
        let one = |(name, length): (char, &usize)| Tunable {
            name: Spanned::new(name.to_string().parse().unwrap(), 0..0),
            values: (0..*length as i64).map(Value::Integer).collect(),
            default: Spanned::new(Value::Integer(0), 0..0),
            default_for: std::collections::BTreeMap::new(),
            when: None,
        };
        names.zip(lengths).map(one).collect()
    }

    pub(in crate::agent::tuner) fn all<'a>() -> Admit<'a> {
        Box::new(|_| Ok(()))
    }

    /// Only settings whose places add up to an even number.
    pub(in crate::agent::tuner) fn even<'a>() -> Admit<'a> {
        Box::new(|tuning| {
            let sum: i64 = tuning
                .values()
                .map(|value| match value {
                    Value::Integer(number) => *number,
                    Value::Boolean(_) => 0,
                })
                .sum();
            if sum % 2 == 0 {
                return Ok(());
            }
            Err(PruneReason { reason: Reason::Constraint, text: "odd".to_owned() })
        })
    }

    #[test]
    fn what_cannot_run_is_left_out_and_counted() {
        let tunables = tunables(&[3, 2, 4]);
        let mut space = Space::new(&tunables, even());
        assert_eq!((space.raw(), space.count()), (Some(24), Some(12)));
        assert_eq!(space.pruned()[&Reason::Constraint], (12, "odd".to_owned()));
        assert!(space.admits(&vec![2, 1, 3]) && !space.admits(&vec![2, 1, 2]));
        let tuning = space.tuning(&vec![2, 1, 3]);
        assert_eq!(words(&tuning), "a=2 b=1 c=3");
        assert_eq!(space.point(&tuning), Some(vec![2, 1, 3]));
        let mut other = tuning.clone();
        other.insert("a".parse().unwrap(), Value::Integer(7));
        assert_eq!(space.point(&other), None);
        assert_eq!(space.point(&Tuning::new()), None);
    }

    #[test]
    fn a_space_too_large_to_list_is_drawn_from() {
        let tunables = tunables(&[20, 20, 20, 20]);
        let mut space = Space::new(&tunables, even());
        assert_eq!((space.raw(), space.count()), (Some(160_000), None));
        let (mut random, mut proposed) = (SplitMix(1), BTreeSet::new());
        for _ in 0..200 {
            let point = space.fresh(&proposed, &mut random).unwrap();
            assert!(point.iter().sum::<usize>() % 2 == 0);
            assert!(proposed.insert(point), "drawn twice");
        }
        assert!(space.pruned()[&Reason::Constraint].0 > 100);
    }

    #[test]
    fn every_setting_of_a_listed_space_is_drawn_once() {
        let tunables = tunables(&[5, 5, 5]);
        let mut space = Space::new(&tunables, all());
        let (mut random, mut proposed) = (SplitMix(3), BTreeSet::new());
        while let Some(point) = space.fresh(&proposed, &mut random) {
            assert!(proposed.insert(point));
        }
        assert_eq!(proposed.len(), 125);
    }

    #[test]
    fn neighbours_differ_by_one_step() {
        let tunables = tunables(&[3, 2]);
        let space = Space::new(&tunables, all());
        assert_eq!(space.neighbours(&vec![1, 0]), [vec![0, 0], vec![2, 0], vec![1, 1]]);
    }
}
