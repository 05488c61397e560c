//! Random settings and the neighbours of the best so far by turns, then the neighbours of the best few: for spaces of some
//! hundreds or thousands. The default is a setting that somebody chose: the best one is often beside it.
//!
//! Owns: how much is random. Never: moves in more than one tunable at a time, but by chance.

use super::search::{SearchHistory, Strategy, beside_the_best};
use super::space::{Point, Space};
use crate::base::random::SplitMix;

/// Settings at the start, for each tunable, of which every other one is random.
const START: usize = 3;
/// The settings whose neighbours are tried.
const FEW: usize = 6;
/// One of so many is random, so that no valley holds the search.
const RANDOM: usize = 6;

/// Climbs from many places.
#[derive(Debug, Default)]
pub(super) struct Local {
    turn: usize,
}

impl Strategy for Local {
    fn name(&self) -> &'static str {
        "random and local"
    }

    fn next(&mut self, space: &mut Space<'_>, known: &SearchHistory, random: &mut SplitMix) -> Option<Point> {
        self.turn += 1;
        let is_start = known.proposed.len() < START * space.choices().count();
        let (few, turns) = if is_start { (1, 2) } else { (FEW, RANDOM) };
        let beside = match self.turn.is_multiple_of(turns) {
            true => None,
            false => beside_the_best(space, known, few, random),
        };
        beside.or_else(|| space.fresh(&known.proposed, random))
    }
}
