//! What some settings take at one length, in turn.
//!
//! Owns: the rounds, and what is said of a setting that was refused or not measured. Never: proposes a setting.

use std::collections::BTreeMap;

use kernel_plan::spec::tune::Tuning;

use crate::agent::Candidate;
use crate::agent::rules::Cost;
use crate::base::interrupt::{self, Interrupted};
use crate::base::random::SplitMix;
use crate::bench::paired;
use crate::exit::Failure;

use super::search::{Judge, PASSING};

/// Samples of a setting in a round.
const SAMPLES: usize = 7;
/// The most rounds.
const ROUNDS: usize = 7;
/// Rounds that are never left out.
const LEAST_ROUNDS: usize = 2;
/// After the first round, settings that take so many times the least time are not timed again.
const BEHIND: f64 = 1.15;

/// What each setting costs; `None` stands for one that cannot run here. `seconds` is how long all rounds may take.
///
/// # Errors
/// The judge fails, or ctrl-C.
pub(crate) fn compare(
    settings: &[Option<Tuning>],
    judge: &mut dyn Judge,
    seconds: f64,
    clock: &dyn Fn() -> f64,
    random: &mut SplitMix,
) -> Result<Vec<Cost>, Failure> {
    let mut known: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let mut refused = vec![false; settings.len()];
    let mut timed: Vec<usize> = (0..settings.len()).filter(|place| settings[*place].is_some()).collect();
    let mut began = None;
    for round in 0..ROUNDS {
        interrupt::check()?;
        shuffle(&mut timed, random);
        let mut waiting = timed.iter().copied();
        let mut flying: Vec<usize> = vec![];
        loop {
            let room = judge.window().saturating_sub(flying.len());
            let batch: Vec<usize> = waiting.by_ref().take(room).collect();
            let tunings = batch.iter().filter_map(|place| settings[*place].clone());
            judge.take(tunings.map(|tuning| Candidate { tuning, samples: SAMPLES, enough: None }).collect());
            flying.extend(batch);
            if flying.is_empty() {
                break;
            }
            judge.ready()?;
            began.get_or_insert_with(clock);
            // Who was taken in comes out, unless all was stopped.
            let Some(verdict) = judge.verdict()? else { return Err(Interrupted.into()) };
            let is_it = |place: &usize| settings[*place].as_ref() == Some(&verdict.candidate.tuning);
            let Some(at) = flying.iter().position(is_it) else { continue };
            let place = flying.swap_remove(at);
            match verdict.outcome {
                Ok(figures) => known.entry(place).or_default().push(figures.cost()),
                // The state of the GPU says nothing about a setting.
                Err(refusal) => refused[place] |= refusal.code != PASSING,
            }
        }
        let cost = |place: &usize| known.get(place).and_then(|costs| paired::middle(costs));
        let least = timed.iter().filter_map(cost).min_by(f64::total_cmp).unwrap_or(f64::INFINITY);
        timed.retain(|place| !refused[*place] && cost(place).is_none_or(|cost| cost <= BEHIND * least));
        let is_late = began.is_some_and(|began| clock() - began > seconds);
        if timed.len() < 2 || (is_late && round + 1 >= LEAST_ROUNDS) {
            break;
        }
    }
    let cost = |(place, setting): (usize, &Option<Tuning>)| match (setting, known.get(&place)) {
        (None, _) => Cost::Defaults,
        _ if refused[place] => Cost::Refused,
        (_, Some(costs)) => paired::middle(costs).map_or(Cost::Unknown, Cost::Known),
        _ => Cost::Unknown,
    };
    Ok(settings.iter().enumerate().map(cost).collect())
}

fn shuffle(places: &mut [usize], random: &mut SplitMix) {
    for at in (1..places.len()).rev() {
        places.swap(at, random.below(at + 1));
    }
}
