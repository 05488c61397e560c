//! How well each setting is known: few samples first, more for those that are among the best.
//!
//! Owns: the rungs, and who climbs. Never: proposes a setting that nobody timed.
//!
//! Asynchronous successive halving (L. Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020): a setting
//! climbs as soon as it is among the best sixth of its rung, without waiting for all others.

use std::collections::{BTreeMap, BTreeSet};

use super::space::Point;

/// Samples of each rung.
pub(super) const RUNGS: [usize; 3] = [3, 9, 27];
/// One of so many climbs.
pub(super) const KEPT: usize = 6;

/// All settings that were timed.
#[derive(Debug, Default)]
pub(super) struct Halving {
    rungs: [Rung; RUNGS.len()],
}

#[derive(Debug, Default)]
struct Rung {
    /// What each setting costs here.
    costs: BTreeMap<Point, f64>,
    /// The best first: positive numbers are ordered as their bits are.
    order: BTreeSet<(u64, Point)>,
    climbed: BTreeSet<Point>,
}

impl Halving {
    /// Takes what a setting costs by so many samples; nothing for one that was refused, which is out of the race whatever
    /// was heard of it before.
    pub(super) fn hear(&mut self, point: &Point, samples: usize, cost: Option<f64>) {
        let at = RUNGS.iter().rposition(|rung| samples >= *rung).unwrap_or(0);
        let Some(cost) = cost else {
            self.rungs.iter_mut().for_each(|rung| rung.forget(point));
            return;
        };
        for below in &mut self.rungs[..at] {
            below.climbed.insert(point.clone());
        }
        let rung = &mut self.rungs[at];
        rung.forget(point);
        rung.order.insert((cost.to_bits(), point.clone()));
        rung.costs.insert(point.clone(), cost);
    }

    /// A setting that climbs, with the samples of its new rung; the highest rung first.
    pub(super) fn climb(&mut self) -> Option<(Point, usize)> {
        for at in (0..RUNGS.len() - 1).rev() {
            let rung = &mut self.rungs[at];
            let room = rung.order.len() / KEPT;
            let best = rung.order.iter().take(room).map(|(_, point)| point);
            let climber = best.into_iter().find(|point| !rung.climbed.contains(*point)).cloned();
            if let Some(point) = climber {
                rung.climbed.insert(point.clone());
                return Some((point, RUNGS[at + 1]));
            }
        }
        None
    }

    /// The best settings, each by the most samples that it has.
    pub(super) fn best(&self, count: usize) -> Vec<&Point> {
        let mut known: BTreeMap<&Point, f64> = BTreeMap::new();
        for rung in &self.rungs {
            known.extend(rung.costs.iter().map(|(point, cost)| (point, *cost)));
        }
        let mut ordered: Vec<(&Point, f64)> = known.into_iter().collect();
        ordered.sort_by(|one, other| one.1.total_cmp(&other.1));
        ordered.into_iter().take(count).map(|(point, _)| point).collect()
    }
}

impl Rung {
    fn forget(&mut self, point: &Point) {
        if let Some(cost) = self.costs.remove(point) {
            self.order.remove(&(cost.to_bits(), point.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_climbs_and_each_setting_once() {
        let mut halving = Halving::default();
        for place in 0..KEPT * KEPT {
            halving.hear(&vec![place], 3, Some(1.0 + place as f64));
        }
        let climbed: Vec<_> = std::iter::from_fn(|| halving.climb()).collect();
        assert_eq!(climbed, (0..KEPT).map(|place| (vec![place], 9)).collect::<Vec<_>>());
        for place in 0..KEPT {
            halving.hear(&vec![place], 9, Some(if place == 1 { 1.0 } else { 2.0 + place as f64 }));
        }
        assert_eq!(halving.climb(), Some((vec![1], 27)));
        assert_eq!(halving.climb(), None);
    }

    #[test]
    fn the_most_samples_count() {
        let mut halving = Halving::default();
        // Lucky with three samples, not with nine.
        halving.hear(&vec![0], 3, Some(0.5));
        halving.hear(&vec![1], 3, Some(1.0));
        halving.hear(&vec![0], 9, Some(1.5));
        assert_eq!(halving.best(9), [&vec![1], &vec![0]]);
        // Wrong with more calls: it is none of the best any more.
        halving.hear(&vec![1], 9, None);
        assert_eq!(halving.best(9), [&vec![0]]);
    }

    #[test]
    fn what_an_earlier_run_knew_does_not_climb_again() {
        let mut halving = Halving::default();
        for place in 0..KEPT {
            halving.hear(&vec![place], 3, Some(1.0 + place as f64));
        }
        halving.hear(&vec![0], 9, Some(1.0));
        assert_eq!(halving.climb(), None);
    }
}
