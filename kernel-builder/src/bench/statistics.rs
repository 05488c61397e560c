//! The statistics that decide: medians, ratios, intervals, and when there are enough samples.
//!
//! Owns: the paired bootstrap. Pure: the same samples give the same interval on every machine.
//! Never: knows what was timed.

use serde::{Deserialize, Serialize};

/// Resamples for one interval; 2000 put the ends of a 95% interval within a tenth of its width.
const RESAMPLES: usize = 2000;

/// The ratio of two contenders' times with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Median over the blocks of other / this: above 1, this contender is faster.
    pub ratio: f64,
    /// The 2.5% quantile of the bootstrap.
    pub low: f64,
    /// The 97.5% quantile of the bootstrap.
    pub high: f64,
}

impl Interval {
    /// Half the interval's width, relative to the ratio.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.ratio
    }
}

/// The median; not a number where there are no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

/// The ratio `other / this` of times that were taken block by block, so that what disturbs a block disturbs both.
///
/// The interval is the percentile interval of a bootstrap over blocks (Efron and Tibshirani, An Introduction to the
/// Bootstrap, 1993, chapter 13), computed on logarithms, so that swapping the contenders gives the reciprocal. Absent
/// when there are fewer than two blocks, or times that are not positive.
pub fn paired_ratio(this: &[f64], other: &[f64]) -> Option<Interval> {
    let mut logs: Vec<f64> = this.iter().zip(other).map(|(this, other)| (other / this).ln()).collect();
    if logs.len() < 2 || logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    logs.sort_by(f64::total_cmp);
    // Of the reciprocal, the sorted logarithms are reversed: drawing places symmetrically gives the mirrored interval.
    let count = logs.len();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut medians = Vec::with_capacity(2 * RESAMPLES);
    let mut places = vec![0; count];
    for _ in 0..RESAMPLES {
        places.fill_with(|| random.below(count));
        places.sort_unstable();
        medians.push(middle_of(&places, |place| logs[place]));
        medians.push(middle_of(&places, |place| logs[count - 1 - place]));
    }
    medians.sort_by(f64::total_cmp);
    Some(Interval {
        ratio: middle(&logs).exp(),
        low: quantile(&medians, 0.025).exp(),
        high: quantile(&medians, 0.975).exp(),
    })
}

fn middle(sorted: &[f64]) -> f64 {
    let places: Vec<usize> = (0..sorted.len()).collect();
    middle_of(&places, |place| sorted[place])
}

/// The middle of values given by sorted places; the mean of both middles where their number is even.
fn middle_of(places: &[usize], value: impl Fn(usize) -> f64) -> f64 {
    match places.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => value(places[odd / 2]),
        even => (value(places[even / 2 - 1]) + value(places[even / 2])) / 2.0,
    }
}

/// The quantile of sorted values, interpolated linearly (type 7 of Hyndman and Fan, as numpy has it).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, part) = (place.floor() as usize, place.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * part
}

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`, by multiplication (Lemire, 2019); the bias is far below what is resolved here.
    fn below(&mut self, limit: usize) -> usize {
        (u128::from(self.next()) * limit as u128 >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
    }

    #[test]
    fn known_figures() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        // numpy.quantile([1, 2, 3, 4], 0.025), 0.975
        assert!(close(quantile(&[1.0, 2.0, 3.0, 4.0], 0.025), 1.075));
        assert!(close(quantile(&[1.0, 2.0, 3.0, 4.0], 0.975), 3.925));
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // The first outputs of SplitMix64 for the seed 1234567.
        let mut random = Random(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn the_interval_of_a_median_is_that_of_the_order_statistics() {
        // For n = 101 the exact 95% interval of the median reaches from about the 41st to the 61st value (binomial).
        let other: Vec<f64> = (1..=101).map(|step| (f64::from(step) / 1000.0).exp()).collect();
        let interval = paired_ratio(&[1.0; 101], &other).unwrap();
        assert!(close(interval.ratio.ln(), 0.051));
        assert!((0.040..=0.043).contains(&interval.low.ln()), "{interval:?}");
        assert!((0.059..=0.062).contains(&interval.high.ln()), "{interval:?}");
    }

    #[test]
    fn equal_contenders_have_no_width() {
        let interval = paired_ratio(&[2.0, 3.0, 4.0], &[2.0, 3.0, 4.0]).unwrap();
        assert_eq!((interval.ratio, interval.half_width()), (1.0, 0.0));
    }

    #[test]
    fn too_few_or_impossible_times_give_no_interval() {
        assert_eq!(paired_ratio(&[1.0], &[1.0]), None);
        assert_eq!(paired_ratio(&[1.0, 0.0], &[1.0, 1.0]), None);
    }

    proptest! {
        #[test]
        fn swapping_gives_the_reciprocal(blocks in prop::collection::vec((1e-6..1e-2f64, 1e-6..1e-2f64), 2..60)) {
            let (this, other): (Vec<f64>, Vec<f64>) = blocks.into_iter().unzip();
            let one = paired_ratio(&this, &other).unwrap();
            let swapped = paired_ratio(&other, &this).unwrap();
            prop_assert!(close(one.ratio, 1.0 / swapped.ratio));
            prop_assert!(close(one.low, 1.0 / swapped.high));
            prop_assert!(close(one.high, 1.0 / swapped.low));
            prop_assert!(one.low <= one.ratio * (1.0 + 1e-9) && one.ratio <= one.high * (1.0 + 1e-9));
        }

        #[test]
        fn a_common_factor_changes_nothing(
            blocks in prop::collection::vec((1e-6..1e-2f64, 1e-6..1e-2f64), 2..60),
            factor in 1e-3..1e3f64,
        ) {
            let (this, other): (Vec<f64>, Vec<f64>) = blocks.into_iter().unzip();
            let scaled = |times: &[f64]| times.iter().map(|time| time * factor).collect::<Vec<_>>();
            let one = paired_ratio(&this, &other).unwrap();
            let both = paired_ratio(&scaled(&this), &scaled(&other)).unwrap();
            prop_assert!(close(one.ratio, both.ratio) && close(one.low, both.low) && close(one.high, both.high));
            let slower = paired_ratio(&this, &scaled(&other)).unwrap();
            prop_assert!(close(one.ratio * factor, slower.ratio));
        }
    }
}
