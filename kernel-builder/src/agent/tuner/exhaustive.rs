//! Every setting, in an order that prefers none: for small spaces.
//!
//! Owns: that order. Never: looks at a cost.

use super::search::{SearchHistory, Strategy};
use super::space::{Point, Space};
use crate::base::random::SplitMix;

/// Draws until nothing is left. A search that is ended early has seen a fair sample.
pub(super) struct Exhaustive;

impl Strategy for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn next(&mut self, space: &mut Space<'_>, known: &SearchHistory, random: &mut SplitMix) -> Option<Point> {
        space.fresh(&known.proposed, random)
    }
}
