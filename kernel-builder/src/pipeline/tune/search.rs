//! The loop between an agent and the judge: what is proposed is judged, and what came of it is heard.
//!
//! Owns: the budget, how many candidates are on their way, the log. Never: proposes or judges.

use std::collections::BTreeMap;

use super::log::Log;
use crate::agent::{Agent, Budget, Candidate, Feedback};
use crate::base::interrupt;
use crate::exit::Failure;

/// What the judge says of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) candidate: Candidate,
    pub(crate) outcome: Result<Figures, Refusal>,
}

/// What a right candidate takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figures {
    /// Seconds a call.
    pub(crate) seconds: f64,
    /// Time of a copy of as many bytes over that.
    pub(crate) copy_fraction: Option<f64>,
}

/// What is wrong with a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) text: String,
}

impl Figures {
    /// What an agent is to make small: time in units of a copy that was timed in turn, since clocks wander.
    pub(crate) fn cost(&self) -> f64 {
        self.copy_fraction.filter(|fraction| *fraction > 0.0).map_or(self.seconds, f64::recip)
    }
}

impl Verdict {
    /// What the agent hears.
    pub(crate) fn feedback(&self) -> Feedback {
        let Candidate { tuning, samples, .. } = self.candidate.clone();
        Feedback { tuning, samples, cost: self.outcome.as_ref().ok().map(Figures::cost) }
    }
}

/// Judges candidates while others are thought of.
pub(crate) trait Judge {
    /// Takes candidates in.
    fn take(&mut self, candidates: Vec<Candidate>);

    /// Waits until the next verdict can follow at once.
    ///
    /// # Errors
    /// There is no device, or the reference fails.
    fn ready(&mut self) -> Result<(), Failure>;

    /// The next verdict, in whatever order; nothing when nothing was taken in.
    ///
    /// # Errors
    /// The judge itself fails, or ctrl-C.
    fn verdict(&mut self) -> Result<Option<Verdict>, Failure>;

    /// Forgets what was taken in and has no verdict.
    ///
    /// # Errors
    /// As [`Self::verdict`].
    fn clear(&mut self) -> Result<(), Failure>;

    /// How many candidates it takes in at a time without losing any time.
    fn window(&self) -> usize;
}

/// How far a search is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Standing {
    /// Candidates that were judged in this run.
    pub(crate) judged: usize,
    /// Those that were right, in this run and earlier ones.
    pub(crate) right: usize,
    /// Candidates by the code of their refusal, with what was said of the first.
    pub(crate) refused: BTreeMap<String, (usize, String)>,
    /// Verdicts of earlier runs.
    pub(crate) recalled: usize,
    /// The best verdict so far.
    pub(crate) best: Option<(Candidate, Figures)>,
    /// Seconds since the first candidate could be judged.
    pub(crate) seconds: f64,
}

impl Standing {
    fn count(&mut self, verdict: &Verdict) {
        match &verdict.outcome {
            Ok(figures) => {
                self.right += 1;
                let is_best =
                    self.best.as_ref().is_none_or(|(_, best)| figures.cost().total_cmp(&best.cost()).is_lt());
                if is_best {
                    self.best = Some((verdict.candidate.clone(), *figures));
                }
            }
            Err(refusal) => {
                self.refused.entry(refusal.code.clone()).or_insert((0, refusal.text.clone())).0 += 1;
            }
        }
    }
}

/// Searches until the agent has nothing more, or the budget is spent. Verdicts of earlier runs are heard first and cost
/// nothing; every new one is in the log before the agent hears it.
///
/// # Errors
/// The judge fails, the log cannot be written, or ctrl-C: what was judged is in the log.
pub(crate) fn search(
    agent: &mut dyn Agent,
    judge: &mut dyn Judge,
    log: &mut Log,
    budget: &Budget,
    clock: &dyn Fn() -> f64,
    tell: &mut dyn FnMut(&Standing, &Verdict),
) -> Result<Standing, Failure> {
    let mut standing = Standing::default();
    for verdict in log.earlier() {
        agent.hear(&verdict.feedback());
        standing.count(verdict);
        standing.recalled += 1;
    }
    let (mut began, mut flying) = (None, 0);
    loop {
        interrupt::check()?;
        standing.seconds = began.map_or(0.0, |began| clock() - began);
        let left = budget.left(standing.seconds, standing.judged + flying);
        let room = left.min(judge.window().saturating_sub(flying));
        if room > 0 {
            let batch = agent.propose(room);
            flying += batch.len();
            judge.take(batch);
        }
        if flying == 0 {
            break;
        }
        if began.is_none() {
            // Texts are compiled while the device gets ready, and the time of search begins when it is.
            judge.ready()?;
            began = Some(clock());
        }
        if standing.seconds >= budget.seconds {
            judge.clear()?;
            break;
        }
        let Some(verdict) = judge.verdict()? else { break };
        flying -= 1;
        standing.judged += 1;
        log.add(&verdict)?;
        agent.hear(&verdict.feedback());
        standing.count(&verdict);
        tell(&standing, &verdict);
    }
    Ok(standing)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
