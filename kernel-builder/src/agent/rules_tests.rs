//! Rules from samples whose best settings are known.

use super::*;
use crate::base::random::SplitMix;

/// Rules of samples as a search fits them.
fn fit_to(samples: &[Sample]) -> Vec<Rule> {
    fit(samples, &never_refused(samples.iter()))
}

/// Times of four settings: the defaults, one for few rows, one for odd lengths, one that is best from 8192 elements on.
fn costs(rows: u64, hidden: u64) -> Vec<Cost> {
    let few = if rows < 64 { 0.7 } else { 1.4 };
    let odd = if hidden.is_multiple_of(8) { 1.1 } else { 0.6 };
    let long = if hidden >= 8192 { 0.8 } else { 1.2 };
    [1.0, few, odd, long].map(Cost::Known).to_vec()
}

fn samples(count: usize, seed: u64, of: impl Fn(u64, u64) -> Vec<Cost>) -> Vec<Sample> {
    let mut random = SplitMix(seed);
    let mut sample = || {
        let rows = 1 << random.below(14);
        let hidden = (1 + random.below(128) as u64) * 128 + random.below(2) as u64;
        Sample { lengths: vec![rows, hidden], costs: of(rows, hidden) }
    };
    (0..count).map(|_| sample()).collect()
}

/// The mean logarithm of the chosen time over the best one.
fn mean_loss(rules: &[Rule], samples: &[Sample]) -> f64 {
    let loss = |sample: &Sample| sample.loss(choose(rules, &sample.lengths));
    samples.iter().map(loss).sum::<f64>() / samples.len() as f64
}

#[test]
fn rules_hold_at_lengths_that_they_have_not_seen() {
    let rules = fit_to(&samples(60, 1, costs));
    let unseen = samples(200, 2, costs);
    assert!(mean_loss(&rules, &unseen) < 0.03, "{} of {rules:?}", mean_loss(&rules, &unseen));
    assert!(mean_loss(&[], &unseen) > 0.3);
    assert!(rules.len() <= 10, "{rules:?}");
}

#[test]
fn noise_makes_no_rules() {
    let mut random = SplitMix(9);
    let noise: Vec<Vec<Cost>> = (0..40)
        .map(|_| (0..5).map(|_| Cost::Known(1.0 + random.below(1000) as f64 * 2e-6)).collect())
        .collect();
    let next = std::cell::Cell::new(0);
    let found = samples(40, 3, |_, _| {
        next.set(next.get() + 1);
        noise[next.get() - 1].clone()
    });
    assert_eq!(fit_to(&found), []);
}

#[test]
fn a_setting_that_was_refused_once_is_never_used() {
    // The fastest one is refused at some lengths in the middle.
    let of = |_: u64, hidden: u64| {
        let refused = (4096..6000).contains(&hidden);
        let fastest = if refused { Cost::Refused } else { Cost::Known(0.5) };
        vec![Cost::Known(1.0), fastest, Cost::Known(0.8)]
    };
    let found = samples(60, 4, of);
    assert_eq!(never_refused(found.iter()), [2]);
    let rules = fit_to(&found);
    assert!(rules.iter().all(|rule| rule.setting == 2), "{rules:?}");
    assert_eq!(never_refused([].iter()), [0; 0]);
}

#[test]
fn refused_defaults_and_unknown_times_decide_nothing() {
    let refused = |_: u64, _: u64| vec![Cost::Refused, Cost::Unknown];
    assert_eq!(fit_to(&samples(10, 5, refused)), []);
    let unknown = |_: u64, _: u64| vec![Cost::Known(1.0), Cost::Unknown, Cost::Defaults];
    assert_eq!(fit_to(&samples(10, 5, unknown)), []);
    assert_eq!(fit_to(&[]), []);
    let other = Sample { lengths: vec![7], costs: vec![Cost::Known(2.0), Cost::Defaults, Cost::Unknown] };
    assert_eq!((other.cost(1), other.cost(2), other.best()), (Some(2.0), None, Some(2.0)));
}

#[test]
fn one_setting_for_all_is_one_rule_within_reach() {
    let found = samples(20, 6, |_, _| vec![Cost::Known(1.0), Cost::Known(0.5)]);
    let rules = fit_to(&found);
    let [rule] = rules.as_slice() else { panic!("{rules:?}") };
    assert_eq!((rule.setting, rule.samples), (1, 20));
    let greatest = found.iter().map(|sample| sample.lengths[1]).max().unwrap();
    assert_eq!(choose(&rules, &[1, 2 * greatest]), 1);
    assert_eq!(choose(&rules, &[1, 2 * greatest + 1]), 0, "a factor of two beyond all samples");
}

#[test]
fn packages_get_few_settings() {
    // Every length has a setting of its own that is best there, by half a percent.
    let of = |rows: u64, hidden: u64| {
        let own = (rows.ilog2() as u64 + hidden) % 15;
        let other = |place: u64| Cost::Known(if place == own { 0.895 } else { 0.9 });
        std::iter::once(Cost::Known(1.0)).chain((0..15).map(other)).collect()
    };
    let rules = fit_to(&samples(60, 7, of));
    let settings: BTreeSet<usize> = rules.iter().map(|rule| rule.setting).collect();
    assert!(!rules.is_empty() && settings.len() <= MOST_SETTINGS + 1, "{settings:?}");
}

#[test]
fn multiples_come_before_the_rest() {
    let of = |_: u64, hidden: u64| {
        let even = hidden.is_multiple_of(2);
        vec![
            Cost::Known(1.0),
            Cost::Known(if even { 0.5 } else { 2.0 }),
            Cost::Known(if even { 2.0 } else { 0.5 }),
        ]
    };
    let rules = fit_to(&samples(40, 8, of));
    assert_eq!(rules.len(), 2, "{rules:?}");
    assert_eq!((rules[0].multiples[1], rules[0].setting), (2, 1));
    assert_eq!((rules[1].multiples[1], rules[1].setting), (1, 2));
    assert_eq!((choose(&rules, &[64, 1024]), choose(&rules, &[64, 1025])), (1, 2));
}
