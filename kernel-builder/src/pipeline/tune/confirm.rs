//! The best settings of a search once more, in turn with the defaults.
//!
//! Owns: which setting wins, and whether that is a gain. Never: takes samples that chose a winner as samples of its gain.
//!
//! A search looks at hundreds of settings, and the best of them is also the luckiest. So the few best run again, in turn
//! and in a new order every round, to choose one; the gain of that one is of rounds that come after, with the defaults
//! alone beside it.

use kernel_plan::spec::tune::Tuning;

use crate::agent::Candidate;
use crate::agent::gain::Gain;
use crate::base::interrupt::{self, Interrupted};
use crate::base::random::SplitMix;
use crate::bench::paired;
use crate::exit::Failure;

use super::search::{Figures, Judge, Refusal};

/// Rounds that choose.
const ROUNDS: usize = 9;
/// Samples of a setting in a round.
const SAMPLES: usize = 7;

/// What came of a workload.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Confirmation {
    /// What is used from now on.
    pub(crate) tuning: Tuning,
    /// Seconds a call.
    pub(crate) seconds: f64,
    /// Those of the defaults, where they can run.
    pub(crate) default_seconds: Option<f64>,
    /// Of a copy.
    pub(crate) copy_fraction: Option<f64>,
    /// How much faster than the defaults; nothing for these themselves.
    pub(crate) gain: Option<Gain>,
    /// The setting that was not shown to be faster than the defaults, with its interval.
    pub(crate) missed: Option<(Tuning, Gain)>,
    /// The reason if its time, or the gain of the best setting over the defaults, is not a result. Nothing is used then.
    pub(crate) unknown: Option<String>,
    /// Settings that were right in the search and not now, with the reason.
    pub(crate) fallen: Vec<(Tuning, Refusal)>,
}

/// A setting with its rounds.
struct Contender {
    tuning: Tuning,
    rounds: Vec<Figures>,
}

impl Contender {
    fn seconds(&self) -> Vec<f64> {
        self.rounds.iter().map(|round| round.seconds).collect()
    }

    fn middle(&self, of: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        paired::middle(&self.rounds.iter().filter_map(of).collect::<Vec<_>>())
    }

    fn cost(&self) -> f64 {
        self.middle(|round| Some(round.cost())).unwrap_or(f64::INFINITY)
    }
}

/// Chooses among `best` and the defaults, and says by how much; nothing where none of them is right. `seconds` is how long
/// the rounds of the gain may take.
///
/// # Errors
/// The judge fails, or ctrl-C.
pub(crate) fn confirm(
    best: Vec<Tuning>,
    default: &Tuning,
    judge: &mut dyn Judge,
    seconds: f64,
    clock: &dyn Fn() -> f64,
    random: &mut SplitMix,
) -> Result<Option<Confirmation>, Failure> {
    let others = best.into_iter().filter(|tuning| tuning != default);
    let tunings = std::iter::once(default.clone()).chain(others);
    let mut contenders: Vec<Contender> = tunings.map(|tuning| Contender { tuning, rounds: vec![] }).collect();
    let mut fallen = Vec::new();
    for _ in 0..ROUNDS {
        round(&mut contenders, judge, random, &mut fallen)?;
    }
    let winner = contenders.iter().min_by(|one, other| one.cost().total_cmp(&other.cost()));
    let Some(winner) = winner.map(|winner| winner.tuning.clone()) else { return Ok(None) };
    let found = |contenders: &[Contender], tuning: &Tuning| {
        let of = contenders.iter().find(|contender| contender.tuning == *tuning);
        of.and_then(|of| {
            let unknown = paired::unknown_time(&of.seconds());
            Some((of.middle(|round| Some(round.seconds))?, of.middle(|round| round.copy_fraction), unknown))
        })
    };
    let runs_default = contenders.iter().any(|contender| contender.tuning == *default);
    if winner == *default || !runs_default {
        let Some((seconds, copy_fraction, unknown)) = found(&contenders, &winner) else { return Ok(None) };
        let default_seconds = runs_default.then_some(seconds);
        return Ok(Some(Confirmation {
            tuning: winner,
            seconds,
            default_seconds,
            copy_fraction,
            gain: None,
            missed: None,
            unknown,
            fallen,
        }));
    }
    contenders.retain(|contender| contender.tuning == *default || contender.tuning == winner);
    contenders.iter_mut().for_each(|contender| contender.rounds.clear());
    let began = clock();
    loop {
        interrupt::check()?;
        round(&mut contenders, judge, random, &mut fallen)?;
        let [one, other] = contenders.as_slice() else { break };
        let late = clock() - began > seconds && one.rounds.len() >= paired::FEWEST;
        if late || paired::is_conclusive(&one.seconds(), &other.seconds()) {
            break;
        }
    }
    // One that was refused in these rounds is none; the other one has what was measured until then.
    let of_default = found(&contenders, default);
    let gain = match contenders.as_slice() {
        [one, other] => paired::gain(&one.seconds(), &other.seconds()),
        _ => None,
    };
    let wins = match (&gain, &of_default) {
        (Some(gain), _) => paired::is_gain(gain),
        (None, default) => default.is_none(),
    };
    let default_seconds = of_default.filter(|(.., unknown)| unknown.is_none()).map(|(seconds, ..)| seconds);
    let tuning = if wins { winner.clone() } else { default.clone() };
    let Some((seconds, copy_fraction, unknown)) = found(&contenders, &tuning) else { return Ok(None) };
    // If noise hides the gain, an earlier setting of this workload may still be the better one, so it stays.
    let hidden = gain.as_ref().filter(|_| !wins).and_then(paired::unknown);
    let unknown = unknown.or(hidden.map(|why| format!("the gain over the defaults is {why}")));
    let missed = gain.filter(|_| !wins).map(|gain| (winner, gain));
    let gain = gain.filter(|_| wins);
    Ok(Some(Confirmation { tuning, seconds, default_seconds, copy_fraction, gain, missed, unknown, fallen }))
}

/// Every contender once, in a new order; those that are refused are out.
fn round(
    contenders: &mut Vec<Contender>,
    judge: &mut dyn Judge,
    random: &mut SplitMix,
    fallen: &mut Vec<(Tuning, Refusal)>,
) -> Result<(), Failure> {
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
    for at in order {
        let tuning = contenders[at].tuning.clone();
        judge.take(vec![Candidate { tuning, samples: SAMPLES, enough: None }]);
        judge.ready()?;
        // Who was taken in comes out, unless all was stopped.
        let Some(verdict) = judge.verdict()? else { return Err(Interrupted.into()) };
        match verdict.outcome {
            Ok(figures) => contenders[at].rounds.push(figures),
            Err(refusal) => fallen.push((verdict.candidate.tuning, refusal)),
        }
    }
    contenders.retain(|contender| !fallen.iter().any(|(tuning, _)| *tuning == contender.tuning));
    Ok(())
}
