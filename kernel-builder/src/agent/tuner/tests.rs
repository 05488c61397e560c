//! The tuner on costs that are known.
//!
//! Owns: synthetic costs, with noise and refusals. Never: needs a compiler or a GPU.

use std::collections::BTreeSet;

use kernel_plan::spec::expr::Value;
use kernel_plan::spec::tune::Tunable;

use super::space::Admit;
use super::space::tests::{all, even, tunables};
use super::*;

/// A cost for the places of a setting; nothing where the judge refuses it.
type Cost = fn(&[i64]) -> Option<f64>;

/// A bowl whose tunables act together, with a ridge that is refused.
fn bowl(places: &[i64]) -> Option<f64> {
    if places[0] == 2 && places[1] > 1 {
        return None;
    }
    let wanted = [5, 1, 3, 2, 6, 4];
    let away: Vec<f64> = places.iter().zip(wanted).map(|(place, wanted)| (place - wanted) as f64).collect();
    let squares: f64 = away.iter().map(|away| away * away).sum();
    let pairs: f64 = away.windows(2).map(|pair| pair[0] * pair[1]).sum();
    Some(1.0 + 0.02 * squares + 0.01 * pairs)
}

/// Values without order: which one is best follows from no neighbour.
fn scattered(places: &[i64]) -> Option<f64> {
    let worth = |(axis, place): (usize, &i64)| ((place * 7 + axis as i64 * 3) % 11) as f64 * 0.05;
    Some(1.0 + places.iter().enumerate().map(worth).sum::<f64>())
}

fn places(tuning: &Tuning) -> Vec<i64> {
    let place = |value: &Value| match value {
        Value::Integer(number) => *number,
        Value::Boolean(truth) => i64::from(*truth),
    };
    tuning.values().map(place).collect()
}

/// What a search came to.
struct Searched {
    /// All that was proposed, in order.
    proposed: Vec<Candidate>,
    heard: Vec<Feedback>,
    /// The noiseless cost of what it calls the best.
    best: f64,
}

/// Runs a search; fewer samples have more noise.
fn search(tuner: &mut Tuner<'_>, cost: Cost, budget: usize, noise: f64) -> Searched {
    let mut random = SplitMix(99);
    let (mut proposed, mut heard) = (Vec::new(), Vec::new());
    while proposed.len() < budget {
        let batch = tuner.propose(8.min(budget - proposed.len()));
        if batch.is_empty() {
            break;
        }
        for candidate in &batch {
            let unit = (random.next() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
            let noise = 1.0 + noise * unit / (candidate.samples as f64).sqrt();
            let cost = cost(&places(&candidate.tuning)).map(|cost| cost * noise);
            let feedback = Feedback { tuning: candidate.tuning.clone(), samples: candidate.samples, cost };
            tuner.hear(&feedback);
            heard.push(feedback);
        }
        proposed.extend(batch);
    }
    let best = tuner.best(1).first().and_then(|tuning| cost(&places(tuning))).unwrap_or(f64::INFINITY);
    Searched { proposed, heard, best }
}

fn least(lengths: &[usize], cost: Cost) -> f64 {
    let tunables = tunables(lengths);
    let mut tuner = Tuner::new(Space::new(&tunables, all()), &[], usize::MAX, 0);
    assert_eq!(tuner.strategy(), "exhaustive");
    search(&mut tuner, cost, usize::MAX, 0.0).best
}

fn tuner<'a>(tunables: &'a [Tunable], admit: Admit<'a>, room: usize, seed: u64) -> Tuner<'a> {
    Tuner::new(Space::new(tunables, admit), &[], room, seed)
}

#[test]
fn a_small_space_is_searched_in_full() {
    let tunables = tunables(&[7, 4, 5]);
    let mut tuner = tuner(&tunables, all(), 10, 1);
    assert_eq!(tuner.strategy(), "exhaustive");
    let found = search(&mut tuner, bowl, usize::MAX, 0.05);
    let settings: BTreeSet<Tuning> = found.proposed.iter().map(|one| one.tuning.clone()).collect();
    assert_eq!(settings.len(), 140);
    assert_eq!(found.best, 1.0);
    assert!(found.proposed.len() < 200, "a sixth climbs, and a sixth of that: {}", found.proposed.len());
}

#[test]
fn a_middle_space_is_searched_in_a_part_of_it() {
    let lengths = [16, 4, 6, 5];
    let all_of_it: usize = lengths.iter().product();
    for seed in 0..10 {
        let tunables = tunables(&lengths);
        let mut tuner = tuner(&tunables, all(), 300, seed);
        assert_eq!(tuner.strategy(), "random and local");
        let found = search(&mut tuner, bowl, 300, 0.02);
        let settings: BTreeSet<Tuning> = found.proposed.iter().map(|one| one.tuning.clone()).collect();
        assert!(settings.len() * 6 < all_of_it, "{} of {all_of_it}", settings.len());
        assert!(found.best <= 1.02, "seed {seed}: {}", found.best);
    }
}

/// What constraints leave of a space that is too large to list: most tunables matter only beside certain values of others.
fn few<'a>() -> Admit<'a> {
    Box::new(|tuning| {
        let places = places(tuning);
        if places[3..].iter().filter(|place| **place > 0).count() <= 1 {
            return Ok(());
        }
        Err(prune::PruneReason { reason: prune::Reason::Constraint, text: "no difference".to_owned() })
    })
}

#[test]
fn a_space_of_which_constraints_leave_little_is_no_large_one() {
    let lengths = [8, 5, 3, 8, 8, 8, 8];
    assert!(lengths.iter().product::<usize>() > 400_000);
    let cost = |places: &[i64]| {
        let away = places.iter().zip([5, 1, 1, 0, 6, 0, 0]).map(|(place, wanted)| (place - wanted).pow(2));
        Some(1.0 + 0.02 * away.sum::<i64>() as f64)
    };
    for seed in 0..10 {
        let tunables = tunables(&lengths);
        let mut tuner = tuner(&tunables, few(), 300, seed);
        assert_eq!(tuner.strategy(), "random and local");
        let found = search(&mut tuner, cost, 300, 0.02);
        assert!(found.best <= 1.1, "seed {seed}: {}", found.best);
    }
}

#[test]
fn a_large_space_is_searched_in_a_thousandth_of_it() {
    let lengths = [16, 8, 6, 5, 12, 10];
    for seed in 0..10 {
        let tunables = tunables(&lengths);
        let mut tuner = tuner(&tunables, all(), 400, seed);
        assert_eq!(tuner.strategy(), "model of good values");
        let found = search(&mut tuner, bowl, 400, 0.02);
        assert!(found.best <= 1.06, "seed {seed}: {}", found.best);
    }
}

#[test]
fn values_without_order_are_learnt() {
    const SEEDS: u64 = 20;
    let lengths = [9, 8, 6, 7, 11, 10];
    // Tunables act alone here, so the best setting is that of the best values.
    let worth = |axis: usize, place: i64| {
        let mut places = vec![0; axis + 1];
        places[axis] = place;
        let without = scattered(&vec![0; axis + 1]).unwrap() - scattered(&vec![0; axis]).unwrap();
        scattered(&places).unwrap() - scattered(&vec![0; axis + 1]).unwrap() + without
    };
    let of_axis = |(axis, length): (usize, &usize)| {
        (0..*length as i64).map(|place| worth(axis, place)).min_by(f64::total_cmp).unwrap()
    };
    let optimum = 1.0 + lengths.iter().enumerate().map(of_axis).sum::<f64>();
    let mut random = SplitMix(17);
    let mut all_over = 0.0;
    for seed in 0..SEEDS {
        let tunables = tunables(&lengths);
        let found = search(&mut tuner(&tunables, all(), 500, seed), scattered, 500, 0.01);
        let mut drawn = || {
            let places: Vec<i64> = lengths.iter().map(|length| random.below(*length) as i64).collect();
            scattered(&places).unwrap()
        };
        let by_chance = (0..500).map(|_| drawn()).min_by(f64::total_cmp).unwrap();
        let (over, over_by_chance) = (found.best - optimum, by_chance - optimum);
        assert!(over < over_by_chance, "seed {seed}: {over}, by chance {over_by_chance}");
        all_over += over;
    }
    // A step of one tunable is 0.05 at least: two of six are a step away, on average.
    assert!(all_over / SEEDS as f64 <= 0.1, "{all_over} in {SEEDS} searches");
}

#[test]
fn nothing_is_proposed_twice_and_only_what_can_run() {
    for (lengths, room) in [(&[5, 5, 5][..], 10), (&[16, 5, 6, 4], 100), (&[20, 20, 20, 20], 100)] {
        let tunables = tunables(lengths);
        let mut tuner = tuner(&tunables, even(), room, 7);
        let found = search(&mut tuner, bowl, 500, 0.05);
        let mut seen = BTreeSet::new();
        for candidate in &found.proposed {
            assert!(seen.insert((candidate.tuning.clone(), candidate.samples)), "{candidate:?} twice");
            assert_eq!(places(&candidate.tuning).iter().sum::<i64>() % 2, 0, "{candidate:?}");
            let is_known = candidate.samples == 3 || seen.contains(&(candidate.tuning.clone(), 3));
            assert!(is_known, "{candidate:?} climbed without being timed");
        }
        assert!(found.proposed.iter().any(|one| one.samples == 27));
    }
}

#[test]
fn the_same_seed_searches_the_same_way() {
    let run = |seed| {
        let tunables = tunables(&[16, 5, 6, 4]);
        search(&mut tuner(&tunables, all(), 100, seed), bowl, 150, 0.02).proposed
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4), run(5));
}

#[test]
fn a_search_goes_on_where_its_log_ends() {
    let tunables = tunables(&[5, 5, 5]);
    let first = search(&mut tuner(&tunables, all(), 10, 1), bowl, 60, 0.02);
    let mut again = tuner(&tunables, all(), 10, 1);
    first.heard.iter().for_each(|feedback| again.hear(feedback));
    let rest = search(&mut again, bowl, usize::MAX, 0.02);
    let known: BTreeSet<_> = first.proposed.iter().map(|one| (one.tuning.clone(), one.samples)).collect();
    let twice = rest.proposed.iter().find(|one| known.contains(&(one.tuning.clone(), one.samples)));
    assert_eq!(twice, None);
    let settings = first.proposed.iter().chain(&rest.proposed).map(|one| one.tuning.clone());
    assert_eq!(settings.collect::<BTreeSet<_>>().len(), 125);
    assert_eq!(rest.best, least(&[5, 5, 5], bowl));
    // What an op.toml of before knew is not taken for anything.
    let mut third = tuner(&tunables, all(), 10, 1);
    third.hear(&Feedback { tuning: Tuning::new(), samples: 3, cost: Some(1.0) });
    assert!(third.best(1).is_empty());
}

#[test]
fn what_won_elsewhere_is_tried_first() {
    let tunables = tunables(&[16, 5, 6, 4]);
    let space = Space::new(&tunables, even());
    let (good, odd) = (space.tuning(&vec![5, 1, 4, 2]), space.tuning(&vec![5, 1, 3, 2]));
    let mut tuner = Tuner::new(space, &[odd.clone(), good.clone(), Tuning::new()], 100, 3);
    let proposed = tuner.propose(4);
    assert_eq!(proposed[0], Candidate { tuning: good.clone(), samples: 3, enough: None });
    assert!(proposed.iter().skip(1).all(|one| one.tuning != good && one.tuning != odd));
}

#[test]
fn whoever_is_far_behind_need_not_be_known_well_and_whoever_climbs_must_be() {
    let tunables = tunables(&[16, 5, 6, 4]);
    let mut tuner = tuner(&tunables, all(), 300, 4);
    assert!(tuner.propose(8).iter().all(|one| one.enough.is_none()), "nothing is known to be behind of");
    let mut tuner = self::tuner(&tunables, all(), 300, 4);
    let found = search(&mut tuner, bowl, 300, 0.0);
    let mut heard = found.heard.iter().map(|one| one.cost.unwrap_or(f64::INFINITY));
    let mut least = f64::INFINITY;
    for batch in found.proposed.chunks(8) {
        for one in batch {
            let expected = (one.samples == 3 && least.is_finite()).then_some(1.1 * least);
            assert_eq!(one.enough, expected, "{one:?}");
        }
        least = heard.by_ref().take(batch.len()).fold(least, f64::min);
    }
    assert!(found.proposed.iter().any(|one| one.samples > 3));
}

#[test]
fn a_space_where_nothing_can_run_ends_at_once() {
    let tunables = tunables(&[16, 5]);
    let admit: Admit<'_> =
        Box::new(|_| Err(prune::PruneReason { reason: prune::Reason::Shared, text: "too much".to_owned() }));
    let mut tuner = tuner(&tunables, admit, 100, 3);
    assert_eq!(tuner.propose(10), []);
    assert_eq!(tuner.space().pruned()[&prune::Reason::Shared].0, 80);
}

/// Some of a million settings: all tunables but the first two have to be what those say.
fn narrow<'a>() -> Admit<'a> {
    Box::new(|tuning| {
        let places = places(tuning);
        let wanted = |axis: usize| (places[0] + places[1]) % (axis as i64 + 2);
        match (2..places.len()).all(|axis| places[axis] == wanted(axis) || places[axis] == 0) {
            true => Ok(()),
            false => Err(prune::PruneReason { reason: prune::Reason::Constraint, text: "no".to_owned() }),
        }
    })
}

#[test]
fn what_few_draws_find_is_found_from_what_is_known() {
    let tunables = tunables(&[10, 10, 10, 10, 10, 10]);
    let mut space = Space::new(&tunables, narrow());
    assert_eq!(space.count(), None);
    let (mut random, mut proposed) = (SplitMix(11), BTreeSet::new());
    while let Some(point) = space.fresh(&proposed, &mut random) {
        assert!(space.admits(&point) && proposed.insert(point));
    }
    let mut all = 0;
    for place in 0..1_000_000usize {
        let point: space::Point = (0..6).map(|axis| place / 10usize.pow(axis) % 10).collect();
        all += usize::from(narrow()(&space.tuning(&point)).is_ok());
    }
    assert!((500..5_000).contains(&all), "{all}");
    assert!(proposed.len() * 100 >= all * 99, "{} of {all}", proposed.len());
    // What is spent stays so, at once.
    assert_eq!(space.fresh(&proposed, &mut random), None);
}
