//! Agents: whoever proposes candidates for a task and is told what came of them.
//!
//! Owns: what is proposed, what is heard, how much may be spent; the table of the settings that won.
//! Never: compiles, judges, times, reads a file or a clock. `pipeline/tune` closes the loop.

pub(crate) mod gain;
pub(crate) mod kernel;
pub(crate) mod lineage;
pub(crate) mod occupancy;
pub(crate) mod program;
pub(crate) mod ranges;
pub(crate) mod reply;
pub(crate) mod rules;
pub(crate) mod spread;
pub(crate) mod tuned;
pub(crate) mod tuner;

use kernel_plan::spec::tune::Tuning;

/// What an agent proposes: a setting, and how well it is to be known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    /// A value for every tunable.
    pub tuning: Tuning,
    /// Samples to time it with.
    pub samples: usize,
    /// A cost beyond which nobody asks how large it is: one that is seen to be beyond it is not timed further.
    pub enough: Option<f64>,
}

/// What an agent hears of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Feedback {
    /// The setting.
    pub tuning: Tuning,
    /// The samples that it was timed with.
    pub samples: usize,
    /// What a call costs: time, or time over that of a copy; less is better. Absent where the judge refused it.
    pub cost: Option<f64>,
}

/// Proposes candidates.
pub(crate) trait Agent {
    /// Up to `most` candidates to be judged next; none when there is nothing more to try, or nothing until more is heard.
    fn propose(&mut self, most: usize) -> Vec<Candidate>;

    /// Takes what came of a candidate: its own, in any order, or one of an earlier run.
    fn hear(&mut self, feedback: &Feedback);

    /// The best settings so far, the best one first.
    fn best(&self, count: usize) -> Vec<Tuning>;
}

/// What may be spent on one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    /// Seconds of search.
    pub seconds: f64,
    /// Candidates that are judged, where that is limited.
    pub candidates: Option<usize>,
}

impl Budget {
    /// How many candidates may still be begun after so many seconds and candidates.
    pub(crate) fn left(&self, seconds: f64, candidates: usize) -> usize {
        if seconds >= self.seconds {
            return 0;
        }
        self.candidates.map_or(usize::MAX, |most| most.saturating_sub(candidates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_with_whichever_is_spent_first() {
        let both = Budget { seconds: 10.0, candidates: Some(5) };
        assert_eq!((both.left(0.0, 0), both.left(9.9, 3), both.left(9.9, 7)), (5, 2, 0));
        assert_eq!(both.left(10.0, 0), 0);
        assert_eq!(Budget { candidates: None, ..both }.left(1.0, 1000), usize::MAX);
    }
}
