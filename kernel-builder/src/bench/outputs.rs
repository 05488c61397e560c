//! Which outputs of a block are compared, and with what they must be compared.
//!
//! Owns: the choice of calls, the contents that a call found. Never: compares.

use std::path::PathBuf;

use kernel_plan::spec::op::Case;
use kernel_plan::units::PythonName;

use super::contender::{Edits, Regime, TimedCall};
use super::stats::SplitMix;

/// Two calls at random of those whose outputs are kept; one of them right after an edit, where there are edits.
pub(super) fn places(random: &mut SplitMix, kept: &[u64], edits: &[(u64, u64)]) -> Vec<u64> {
    let mut places = Vec::new();
    let edited: Vec<u64> = edits.iter().map(|(at, _)| *at).filter(|at| kept.contains(at)).collect();
    for choice in [edited.as_slice(), kept, kept] {
        let left: Vec<u64> = choice.iter().copied().filter(|place| !places.contains(place)).collect();
        if places.len() < 2 && !left.is_empty() {
            places.push(left[random.below(left.len())]);
        }
    }
    places
}

/// Whether inputs of a case have elements that an edit may change: those that calls overwrite are filled before each block.
pub(super) fn can_edit(case: &Case) -> bool {
    let overwritten =
        |name: &PythonName| case.outputs.iter().any(|output| output.inplace.as_ref() == Some(name));
    case.inputs.iter().any(|input| !input.omitted && !overwritten(&input.name))
}

/// The contents of the calls of one block.
pub(super) struct BlockContents {
    pub(super) regime: Regime,
    pub(super) sets: u64,
    pub(super) contents: u64,
    /// The set of the first call.
    pub(super) first: u64,
}

impl BlockContents {
    /// What the referee must know of the call at `place`.
    pub(super) fn call(&self, place: u64, edits: &[(u64, u64)], file: PathBuf) -> TimedCall {
        let number = match self.regime {
            Regime::Host | Regime::Graph => self.set(place),
            Regime::Hot => 0,
            // Every single call has contents of its own, with numbers behind those of the sets; or all have the same but
            // for an edit of their own.
            Regime::Cold if edits.is_empty() => self.sets + place,
            Regime::Cold => self.sets,
        };
        let own_places = |until: u64| -> Vec<u64> {
            let of = |at: u64| match self.regime {
                Regime::Cold => at == place,
                _ => self.set(at) == number && at <= until,
            };
            edits.iter().filter(|(at, _)| of(*at)).map(|(_, edit)| *edit).collect()
        };
        TimedCall {
            file,
            contents: self.contents,
            number,
            edits: Edits { done: own_places(place), all: own_places(u64::MAX) },
        }
    }

    fn set(&self, place: u64) -> u64 {
        (self.first + place) % self.sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_contents_follow_the_regime() {
        let which = |regime, first| BlockContents { regime, sets: 8, contents: 1, first };
        let edits = [(1, 100), (9, 200), (17, 300)];
        let call = which(Regime::Host, 3).call(9, &edits, "9.bin".into());
        assert_eq!((call.number, call.edits.done, call.edits.all), (4, vec![100, 200], vec![100, 200, 300]));
        let numbers = [Regime::Graph, Regime::Cold, Regime::Hot]
            .map(|regime| which(regime, 0).call(11, &[], "11.bin".into()).number);
        assert_eq!(numbers, [3, 19, 0]);
        // Edited single calls have the same contents but for the edit of their own.
        let edits = [(0, 100), (1, 200), (2, 300)];
        let call = which(Regime::Cold, 5).call(1, &edits, "1.bin".into());
        assert_eq!((call.number, call.edits.done, call.edits.all), (8, vec![200], vec![200]));
        let call = which(Regime::Graph, 0).call(2, &edits, "2.bin".into());
        assert_eq!((call.number, call.edits.done, call.edits.all), (2, vec![300], vec![300]));
    }

    #[test]
    fn one_of_the_compared_calls_follows_an_edit() {
        let mut random = SplitMix(1);
        let kept: Vec<u64> = (0..50).collect();
        for _ in 0..20 {
            let chosen = places(&mut random, &kept, &[(7, 1), (30, 2)]);
            assert!(chosen.len() == 2 && [7, 30].contains(&chosen[0]), "{chosen:?}");
        }
        assert_eq!(places(&mut random, &[3], &[(7, 1)]), [3]);
        assert!(places(&mut random, &[], &[]).is_empty());
    }
}
