//! The tuner: the agent without a model. It searches the settings of `[tune]`, with the judge as its reward.
//!
//! Owns: which strategy a space gets, and the order of what is proposed: settings that climb, settings that won elsewhere,
//! then what the strategy chooses. Never: proposes a setting twice with as many samples, or one that cannot run.

pub(crate) mod drawn;
mod exhaustive;
mod halving;
mod local;
mod model;
pub(crate) mod prune;
mod search;
pub(crate) mod space;

use std::collections::VecDeque;

use kernel_plan::spec::tune::Tuning;

use super::{Agent, Candidate, Feedback};
use crate::base::random::SplitMix;
use exhaustive::Exhaustive;
use halving::{Halving, RUNGS};
use local::Local;
use model::Model;
use search::{SearchHistory, Strategy};
use space::{Point, Space};

/// Spaces that are searched in full whatever the budget: they take seconds.
const SMALL: usize = 200;
/// Settings that can run, or so, up to which the neighbours of a few good ones are a fair part of all.
const MIDDLE: usize = 5_000;
/// One that costs so many times what the best one costs does not climb; by how much it is behind is of no use.
const BEHIND: f64 = 1.1;

/// Searches one space.
pub(crate) struct Tuner<'a> {
    space: Space<'a>,
    strategy: Box<dyn Strategy>,
    known: SearchHistory,
    halving: Halving,
    /// What is tried before the strategy is asked.
    first: VecDeque<Point>,
    random: SplitMix,
}

impl<'a> Tuner<'a> {
    /// A search of `space` that begins with the settings `first`. `room` is how many candidates the budget has room for.
    pub(crate) fn new(mut space: Space<'a>, first: &[Tuning], room: usize, seed: u64) -> Self {
        let strategy: Box<dyn Strategy> = match (space.count(), space.about(&mut SplitMix(seed))) {
            // A part of them climbs and is judged again.
            (Some(count), _) if count + count / 3 <= room.max(SMALL) => Box::new(Exhaustive),
            (_, Some(..=MIDDLE)) => Box::new(Local::default()),
            _ => Box::new(Model::default()),
        };
        let first = first.iter().filter_map(|tuning| space.point(tuning)).collect();
        let (known, halving) = (SearchHistory::default(), Halving::default());
        Self { space, strategy, known, halving, first, random: SplitMix(seed) }
    }

    /// What is searched.
    pub(crate) fn space(&self) -> &Space<'a> {
        &self.space
    }

    /// What the strategy is called.
    pub(crate) fn strategy(&self) -> &'static str {
        self.strategy.name()
    }

    /// What is beyond hope for so many samples: none of those that climb, which are to be known well.
    fn enough(&self, samples: usize) -> Option<f64> {
        self.known.least().filter(|_| samples == RUNGS[0]).map(|least| BEHIND * least)
    }

    fn next(&mut self) -> Option<(Point, usize)> {
        if let Some(climber) = self.halving.climb() {
            return Some(climber);
        }
        while let Some(point) = self.first.pop_front() {
            if !self.known.proposed.contains(&point) && self.space.admits(&point) {
                return Some((point, RUNGS[0]));
            }
        }
        let point = self.strategy.next(&mut self.space, &self.known, &mut self.random)?;
        Some((point, RUNGS[0]))
    }
}

impl Agent for Tuner<'_> {
    fn propose(&mut self, most: usize) -> Vec<Candidate> {
        let mut found = Vec::new();
        while found.len() < most {
            let Some((point, samples)) = self.next() else { break };
            let (tuning, enough) = (self.space.tuning(&point), self.enough(samples));
            found.push(Candidate { tuning, samples, enough });
            self.known.proposed.insert(point);
        }
        found
    }

    fn hear(&mut self, feedback: &Feedback) {
        // One of other tunables is of an op.toml that is no more.
        let Some(point) = self.space.point(&feedback.tuning) else { return };
        let cost = feedback.cost.filter(|cost| cost.is_finite() && *cost > 0.0);
        self.known.hear(&point, cost);
        self.halving.hear(&point, feedback.samples, cost);
    }

    fn best(&self, count: usize) -> Vec<Tuning> {
        self.halving.best(count).into_iter().map(|point| self.space.tuning(point)).collect()
    }
}

#[cfg(test)]
#[path = "tuner/tests.rs"]
mod tests;
