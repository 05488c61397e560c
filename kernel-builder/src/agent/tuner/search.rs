//! Which setting is tried next.
//!
//! Owns: the strategies and what they know. Never: proposes what was proposed, or what cannot run.

use std::collections::{BTreeMap, BTreeSet};

use super::space::{Point, Space};
use crate::base::random::SplitMix;

/// What is known of a space.
#[derive(Debug, Default)]
pub(super) struct SearchHistory {
    /// Settings that were proposed, by this run or an earlier one.
    pub proposed: BTreeSet<Point>,
    /// What each costs by the most samples; nothing for one that was refused.
    pub costs: BTreeMap<Point, Option<f64>>,
    /// Those that were not refused, the best first.
    order: BTreeSet<(u64, Point)>,
}

impl SearchHistory {
    /// Takes what a setting costs.
    pub(super) fn hear(&mut self, point: &Point, cost: Option<f64>) {
        self.proposed.insert(point.clone());
        if let Some(Some(old)) = self.costs.insert(point.clone(), cost) {
            self.order.remove(&(old.to_bits(), point.clone()));
        }
        if let Some(cost) = cost {
            self.order.insert((cost.to_bits(), point.clone()));
        }
    }

    /// The best settings, the best one first.
    pub(super) fn best(&self, count: usize) -> impl Iterator<Item = &Point> {
        self.order.iter().take(count).map(|(_, point)| point)
    }

    /// What the best one costs.
    pub(super) fn least(&self) -> Option<f64> {
        self.order.first().map(|(bits, _)| f64::from_bits(*bits))
    }

    /// How many were timed.
    pub(super) fn timed(&self) -> usize {
        self.order.len()
    }
}

/// Chooses settings.
pub(super) trait Strategy {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// A setting that was not proposed and can run; none where nothing is left.
    fn next(&mut self, space: &mut Space<'_>, known: &SearchHistory, random: &mut SplitMix) -> Option<Point>;
}

/// The first neighbour of the best settings, the best one's first, that was not proposed and can run.
pub(super) fn beside_the_best(
    space: &mut Space<'_>,
    known: &SearchHistory,
    few: usize,
    random: &mut SplitMix,
) -> Option<Point> {
    let best: Vec<Point> = known.best(few).cloned().collect();
    for point in best {
        let neighbours = space.neighbours(&point);
        let first = random.below(neighbours.len().max(1));
        for step in 0..neighbours.len() {
            let neighbour = &neighbours[(first + step) % neighbours.len()];
            if !known.proposed.contains(neighbour) && space.admits(neighbour) {
                return Some(neighbour.clone());
            }
        }
    }
    None
}
