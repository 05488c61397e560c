//! Figures that were sampled and are no results.
//!
//! Owns: what a record keeps of one, and the words for it. Never: decides which figure is one; `known` does.

use serde::{Deserialize, Serialize};

use super::stats::FEWEST_BLOCKS;

/// Name of the share of the ceiling among figures that are not measured.
pub(super) const ROOFLINE: &str = "roofline";

/// A figure that was sampled and is not known well enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unmeasured {
    /// `time`, `roofline`, or `vs` with a contender.
    pub figure: String,
    /// Blocks of the start that has the fewest.
    pub blocks: u64,
    /// The factor to which the blocks say it; absent if they are too few for an interval.
    pub factor: Option<f64>,
    /// The blocks that each start would need, as far as these say; absent if more would not do.
    pub needs: Option<u64>,
    /// The seconds that `--budget` would have to allow for them, if it is known how long these blocks took.
    pub budget: Option<f64>,
    /// The starts that `--starts` would have to ask for, where starts differ more than samples do.
    pub starts: Option<u64>,
}

impl Unmeasured {
    /// Why it is none, and what it would take.
    pub fn reason(&self) -> String {
        let few = self.blocks < FEWEST_BLOCKS as u64;
        let why = match self.factor {
            _ if few => format!("{} blocks, at least {FEWEST_BLOCKS} required", self.blocks),
            Some(factor) => {
                format!("known only to a factor of {} after {} blocks", short(factor), self.blocks)
            }
            None => format!("no interval after {} blocks", self.blocks),
        };
        match (self.needs, self.budget, self.starts) {
            (_, Some(budget), _) if few => format!("{why}; try --budget {budget:.0}"),
            (Some(needs), Some(budget), _) => format!("{why}; needs about {needs}, try --budget {budget:.0}"),
            (Some(needs), None, _) => format!("{why}; needs about {needs} blocks"),
            (None, _, Some(starts)) => format!("{why}, because starts differ; try --starts {starts}"),
            (None, _, None) => format!("{why}; needs an idle machine"),
        }
    }
}

/// `1.251`, `4.31`, `170`, `4e3`.
pub(super) fn short(factor: f64) -> String {
    match factor {
        // Beside the limit of 1.25.
        near if near < 2.0 => format!("{near:.3}"),
        small if small < 10.0 => format!("{small:.2}"),
        middle if middle < 1000.0 => format!("{middle:.0}"),
        _ => format!("{factor:.0e}"),
    }
}
