//! Ratios of paired samples with their intervals.
//!
//! Owns: the median of paired ratios, its percentile bootstrap interval, the random numbers that the bootstrap uses.
//! Never: sees units; only ratios leave this module.

/// Resamples of the bootstrap.
const RESAMPLES: usize = 2000;
/// The seed is fixed, so that the same samples always give the same interval.
const SEED: u64 = 0x6b65_726e_656c_7731;

/// A number with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    /// The median.
    pub(super) median: f64,
    /// The lower end.
    pub(super) low: f64,
    /// The upper end.
    pub(super) high: f64,
}

/// The middle of some numbers, the mean of both middle ones for an even count; `None` for no numbers.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    median_of_ordered(&ordered)
}

fn median_of_ordered(ordered: &[f64]) -> Option<f64> {
    let middle = ordered.len() / 2;
    match ordered.len() {
        0 => None,
        count if count % 2 == 1 => Some(ordered[middle]),
        _ => Some(f64::midpoint(ordered[middle - 1], ordered[middle])),
    }
}

/// How many times faster `kernel` is than `baseline`, block by block: the median of `baseline[i] / kernel[i]`, with
/// the 95% percentile bootstrap interval (B. Efron, "Bootstrap methods: another look at the jackknife", 1979).
///
/// The two samples of a block were taken one right after the other, so what slows the whole machine down for a while
/// cancels. The arithmetic is done on logarithms, so that the contenders can be exchanged: that gives the reciprocal.
/// `None` when there is no block in which both samples are positive.
pub(super) fn paired_ratio(baseline: &[f64], kernel: &[f64]) -> Option<Interval> {
    let logarithms: Vec<f64> = baseline
        .iter()
        .zip(kernel)
        .filter(|(baseline, kernel)| **baseline > 0.0 && **kernel > 0.0)
        .map(|(baseline, kernel)| baseline.ln() - kernel.ln())
        .collect();
    let centre = median(&logarithms)?;
    let (low, high) = bootstrap(&logarithms);
    // A median of resamples can miss the sample's own median only by the choice of percentile; the interval is for it.
    Some(Interval { median: centre.exp(), low: low.min(centre).exp(), high: high.max(centre).exp() })
}

/// The 2.5th and 97.5th percentile of the medians of resamples.
fn bootstrap(values: &[f64]) -> (f64, f64) {
    let mut random = SplitMix(SEED);
    let mut resample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            resample.fill_with(|| values[random.below(values.len())]);
            resample.sort_by(f64::total_cmp);
            median_of_ordered(&resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    // Symmetric ranks: as many medians lie below the lower end as above the upper one.
    let outside = RESAMPLES / 40;
    (medians[outside], medians[RESAMPLES - 1 - outside])
}

/// SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, by multiplication; the bias is below 2^-50 for every count of samples here.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn equal_ratios_have_no_width() {
        let found = paired_ratio(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0]).unwrap();
        for value in [found.median, found.low, found.high] {
            assert!((value - 2.0).abs() < 1e-12, "{found:?}");
        }
    }

    #[test]
    fn the_interval_of_known_ratios() {
        // Ratios 1, 2, ..., 99: the median is 50, and the order statistics of the binomial law that enclose it with
        // 95% are the 40th and the 60th.
        let baseline: Vec<f64> = (1..100).map(f64::from).collect();
        let found = paired_ratio(&baseline, &[1.0; 99]).unwrap();
        assert!((found.median - 50.0).abs() < 1e-9, "{found:?}");
        assert!((38.0..=43.0).contains(&found.low), "{found:?}");
        assert!((57.0..=62.0).contains(&found.high), "{found:?}");
    }

    #[test]
    fn one_slow_block_hurts_nobody() {
        let mut kernel = vec![1.0; 21];
        let mut baseline = vec![1.5; 21];
        (kernel[4], baseline[4]) = (50.0, 75.0);
        baseline[9] = 900.0;
        let found = paired_ratio(&baseline, &kernel).unwrap();
        assert!((found.median - 1.5).abs() < 1e-12 && found.high < 1.6, "{found:?}");
    }

    #[test]
    fn samples_that_are_no_times_are_left_out() {
        assert_eq!(paired_ratio(&[1.0], &[0.0]), None);
        assert_eq!(paired_ratio(&[], &[]), None);
    }

    #[test]
    fn random_numbers_are_those_of_the_paper() {
        // First outputs for seed 0, as in every published implementation.
        let mut random = SplitMix(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    fn samples() -> impl Strategy<Value = Vec<(f64, f64)>> {
        vec((1e-7..1e-2, 1e-7..1e-2), 1..60)
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn the_interval_holds_the_median(pairs in samples()) {
            let (baseline, kernel): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let found = paired_ratio(&baseline, &kernel).unwrap();
            prop_assert!(found.low <= found.median && found.median <= found.high);
        }

        #[test]
        fn exchanging_the_contenders_gives_the_reciprocal(pairs in samples()) {
            let (baseline, kernel): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let one = paired_ratio(&baseline, &kernel).unwrap();
            let other = paired_ratio(&kernel, &baseline).unwrap();
            prop_assert!(close(one.median, 1.0 / other.median));
            prop_assert!(close(one.low, 1.0 / other.high));
            prop_assert!(close(one.high, 1.0 / other.low));
        }

        #[test]
        fn the_unit_of_time_does_not_matter(pairs in samples(), unit in 1e-3..1e9) {
            let (baseline, kernel): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let scaled = |values: &[f64]| values.iter().map(|value| value * unit).collect::<Vec<_>>();
            let one = paired_ratio(&baseline, &kernel).unwrap();
            let other = paired_ratio(&scaled(&baseline), &scaled(&kernel)).unwrap();
            prop_assert!(close(one.median, other.median) && close(one.low, other.low) && close(one.high, other.high));
        }
    }
}
