//! A model of which values the good settings have: for large spaces.
//!
//! Owns: the model. Never: believes that values next to each other are alike; local moves try that.
//!
//! A tree-structured Parzen estimator over categorical values (J. Bergstra et al., "Algorithms for Hyper-Parameter
//! Optimization", 2011): for each tunable, how often the best fifth has each value and how often all others have it. Of
//! many draws from the first law the one with the highest ratio of both is tried. What was refused is among the others, so
//! that values which do not compile are avoided.

use super::search::{SearchHistory, Strategy, beside_the_best};
use super::space::{Point, Space};
use crate::base::random::SplitMix;

/// Random settings at the start, for each tunable.
const START: usize = 6;
/// One of so many timed settings is good.
const GOOD: usize = 5;
/// Draws of which the best one is tried.
const DRAWS: usize = 48;
/// Of so many turns one is random, and every other one moves from the best settings.
const TURNS: usize = 8;
/// The settings whose neighbours are tried.
const FEW: usize = 3;

/// Learns which values are good.
#[derive(Debug, Default)]
pub(super) struct Model {
    turn: usize,
}

/// For each tunable how often it has each value.
type Law = Vec<Vec<f64>>;

impl Strategy for Model {
    fn name(&self) -> &'static str {
        "model of good values"
    }

    fn next(&mut self, space: &mut Space<'_>, known: &SearchHistory, random: &mut SplitMix) -> Option<Point> {
        self.turn += 1;
        let axes = space.choices().count();
        let found = match self.turn % TURNS {
            _ if known.proposed.len() < START * axes || known.timed() < 2 * GOOD => None,
            0 => None,
            turn if turn % 2 == 0 => beside_the_best(space, known, FEW, random),
            _ => modelled(space, known, random),
        };
        found.or_else(|| space.fresh(&known.proposed, random))
    }
}

/// The most promising one of many draws.
fn modelled(space: &mut Space<'_>, known: &SearchHistory, random: &mut SplitMix) -> Option<Point> {
    let count = (known.timed() / GOOD).max(2);
    let good: Vec<&Point> = known.best(count).collect();
    let best = law(space, good.iter().copied());
    let others = law(space, known.costs.keys().filter(|point| !good.contains(point)));
    let score = |point: &Point| -> f64 {
        let ratios = point.iter().enumerate().map(|(axis, place)| best[axis][*place] / others[axis][*place]);
        ratios.map(f64::ln).sum()
    };
    let mut found: Option<(f64, Point)> = None;
    for _ in 0..DRAWS {
        let point: Point = best.iter().map(|weights| drawn(weights, random)).collect();
        let score = score(&point);
        let is_better = found.as_ref().is_none_or(|(best, _)| score > *best);
        if is_better && !known.proposed.contains(&point) && space.admits(&point) {
            found = Some((score, point));
        }
    }
    found.map(|(_, point)| point)
}

/// Shares of values, as if each had been seen once more, spread over the values.
fn law<'a>(space: &Space<'_>, points: impl Iterator<Item = &'a Point>) -> Law {
    let mut law: Law = space.choices().map(|values| vec![1.0 / values as f64; values]).collect();
    let mut total = 1.0;
    for point in points {
        total += 1.0;
        for (weights, place) in law.iter_mut().zip(point) {
            weights[*place] += 1.0;
        }
    }
    law.iter_mut().flatten().for_each(|weight| *weight /= total);
    law
}

/// A place by its share.
fn drawn(weights: &[f64], random: &mut SplitMix) -> usize {
    let mut left = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
    for (place, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return place;
        }
    }
    weights.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::super::space::tests::{all, tunables};
    use super::*;

    #[test]
    fn the_model_prefers_what_the_good_ones_have() {
        let tunables = tunables(&[10, 10, 10]);
        let mut space = Space::new(&tunables, all());
        let mut known = SearchHistory::default();
        let mut random = SplitMix(5);
        // The first tunable decides; the third value of the second is always refused.
        for place in 0..100 {
            let point = vec![place % 10, place / 10, place % 7];
            let cost = (point[1] != 3).then(|| 1.0 + (point[0] as f64 - 4.0).abs());
            known.hear(&point, cost);
        }
        let found: Vec<Point> = (0..50).filter_map(|_| modelled(&mut space, &known, &mut random)).collect();
        assert_eq!(found.len(), 50);
        let with = |wanted: &dyn Fn(&&Point) -> bool| found.iter().filter(wanted).count();
        assert!(with(&|point| (3..=5).contains(&point[0])) >= 45, "{found:?}");
        assert_eq!(with(&|point| point[1] == 3), 0, "{found:?}");
        assert!(found.iter().all(|point| !known.proposed.contains(point)));
    }
}
