//! Ratios of paired samples with their intervals, and when there are enough samples.
//!
//! Owns: the median of paired ratios, its interval, the interval over several starts, means over cases, the rule that ends
//! sampling.
//! Never: sees units or a clock; only ratios leave this module.

pub(super) use crate::base::random::SplitMix;

/// Resamples of the bootstrap.
const RESAMPLES: usize = 2000;
/// The seed is fixed, so that the same samples always give the same interval.
const SEED: u64 = 0x6b65_726e_656c_7731;
/// Blocks that are taken in any case.
pub(crate) const FEWEST_BLOCKS: usize = 15;
/// Blocks after which sampling ends in any case.
pub(crate) const MOST_BLOCKS: usize = 300;
/// Sampling may end at multiples of so many blocks. A rule that is asked after every block ends at lucky ones.
const STRIDE: usize = 5;
/// A ratio is known well enough when half of its interval is below this part of it.
const NARROW: f64 = 0.005;
/// The 97.5th percentile of Student's t with 1, 2, 3, ... degrees of freedom.
const STUDENT: [f64; 19] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093,
];

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

/// How many times faster `kernel` is than `baseline`, block by block: the median of `baseline[i] / kernel[i]`, with its
/// 95% interval.
///
/// The interval reaches as far as either of two: the percentile bootstrap (B. Efron, "Bootstrap methods: another look at
/// the jackknife", 1979), and the order statistics that enclose the median of any law ([`rank`]). The first alone is too
/// short for few blocks: after [`enough`] it would hold the truth in 91% of cases, where both together do in 94%.
///
/// The two samples of a block were taken one right after the other, so what slows the whole machine down for a while
/// cancels. The arithmetic is done on logarithms, so that the contenders can be exchanged: that gives the reciprocal.
/// `None` when there is no block in which both samples are positive.
pub(super) fn paired_ratio(baseline: &[f64], kernel: &[f64]) -> Option<Interval> {
    let mut logarithms = paired_logarithms(baseline, kernel);
    let (resampled_low, resampled_high) = bootstrap(&logarithms, sorted_median)?;
    logarithms.sort_by(f64::total_cmp);
    let centre = median_of_ordered(&logarithms)?;
    let (low, high) = enclosing(&logarithms).unwrap_or((centre, centre));
    // A median of resamples can miss the sample's own median only by the choice of percentile; the interval is for it.
    Some(Interval {
        median: centre.exp(),
        low: low.min(resampled_low).min(centre).exp(),
        high: high.max(resampled_high).max(centre).exp(),
    })
}

/// The ratio that several starts of the processes measured, with an interval for how starts differ; `None` without any.
///
/// The ratio is the median of the starts' ratios. The interval reaches as far as any of these:
/// - the interval of each start: how well that start is known;
/// - Student's t interval for the mean of the starts' logarithms (mean ± t s / √n, 97.5th percentile of t with n - 1 degrees
///   of freedom): how starts differ.
///
/// A start is one observation, however many samples it has: samples of one process share its addresses, its clocks and
/// the code that was chosen for it. This is the method of A. Georges, D. Buytaert and L. Eeckhout, "Statistically rigorous
/// Java performance evaluation" (OOPSLA 2007, section 3.2.2), for few runs of a program. It assumes that the logarithms of
/// starts follow a normal law. If starts fall into two groups, three starts are all of one group in a quarter of runs, and
/// then the interval does not show the other group.
pub(super) fn over_starts(starts: &[Interval]) -> Option<Interval> {
    let logarithms: Vec<f64> = starts.iter().map(|start| start.median.ln()).collect();
    let centre = median(&logarithms)?;
    let (mut low, mut high) = (centre, centre);
    for start in starts {
        (low, high) = (low.min(start.low.ln()), high.max(start.high.ln()));
    }
    if let Some(Spread { mean, student, deviation }) = spread(&logarithms) {
        let half = student * deviation / (starts.len() as f64).sqrt();
        (low, high) = (low.min(mean - half), high.max(mean + half));
    }
    Some(Interval { median: centre.exp(), low: low.exp(), high: high.exp() })
}

/// The geometric mean of positive values; `None` without any.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logarithms / values.len() as f64).exp())
}

/// The 95% interval of the geometric mean of positive values, one a case, by the percentile bootstrap over cases; `None`
/// without any.
pub(crate) fn over_cases(values: &[f64]) -> Option<(f64, f64)> {
    bootstrap(values, |resample| geometric_mean(resample))
}

/// The median of positive values, with the order statistics that enclose that of the law behind them with 95% at least. Of
/// too few values the interval has no end.
pub(super) fn enclosed(values: &[f64]) -> Option<Interval> {
    let mut ordered: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
    ordered.sort_by(f64::total_cmp);
    let median = median_of_ordered(&ordered)?;
    let (low, high) = enclosing(&ordered).unwrap_or((0.0, f64::INFINITY));
    Some(Interval { median, low, high })
}

/// Number of starts that would narrow a ratio to this factor, if further starts vary as these do. `None` if more than
/// `most` were needed.
pub(super) fn starts_for(starts: &[f64], factor: f64, most: usize) -> Option<usize> {
    let logarithms: Vec<f64> = starts.iter().map(|ratio| ratio.ln()).collect();
    let Spread { deviation, .. } = spread(&logarithms)?;
    let half = |count: usize| STUDENT[(count - 1).min(STUDENT.len()) - 1] * deviation / (count as f64).sqrt();
    (starts.len() + 1..=most).find(|count| half(*count) <= factor.ln())
}

/// The interval that holds the ratio of one more start with 95%, by the ratios of several: mean ± t s √(1 + 1/n) of their
/// logarithms (the prediction interval of a normal law). `None` for fewer than two.
pub(super) fn one_more(starts: &[f64]) -> Option<(f64, f64)> {
    let logarithms: Vec<f64> = starts.iter().map(|ratio| ratio.ln()).collect();
    let Spread { mean, student, deviation } = spread(&logarithms)?;
    let half = student * deviation * (1.0 + 1.0 / starts.len() as f64).sqrt();
    Some(((mean - half).exp(), (mean + half).exp()))
}

/// How some numbers lie round their mean.
struct Spread {
    mean: f64,
    /// The 97.5th percentile of Student's t with one degree of freedom fewer than there are numbers.
    student: f64,
    /// The standard deviation, of a sample.
    deviation: f64,
}

/// `None` for fewer than two numbers, and for numbers that are not finite.
fn spread(values: &[f64]) -> Option<Spread> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / freedom as f64).sqrt();
    // More degrees of freedom than the table has give a smaller t, so the last one is not too small.
    let student = STUDENT[freedom.min(STUDENT.len()) - 1];
    deviation.is_finite().then_some(Spread { mean, student, deviation })
}

/// Whether sampling can end: the ratio of every rival to the kernel is known to half a percent, or [`MOST_BLOCKS`] are
/// there. Samples of the same index are of the same block. The budget is the caller's to keep, and that at least
/// [`FEWEST_BLOCKS`] are taken when it is spent.
///
/// Known to half a percent: half of the interval by order statistics is below that, now and five blocks ago. To end as
/// soon as an interval looks narrow prefers samples that look better than they are; asked twice and at every fifth block
/// only, the final interval still holds the truth in 94% of cases (a test simulates it).
pub(crate) fn enough(kernel: &[f64], rivals: &[&[f64]]) -> bool {
    let blocks = kernel.len();
    if blocks >= MOST_BLOCKS {
        return true;
    }
    if blocks < FEWEST_BLOCKS + STRIDE || !blocks.is_multiple_of(STRIDE) {
        return false;
    }
    rivals.iter().all(|rival| {
        [blocks - STRIDE, blocks].into_iter().all(|count| {
            let taken = rival.get(..count).unwrap_or(rival);
            narrow(paired_logarithms(taken, &kernel[..count]))
        })
    })
}

/// Whether half of the interval of the median is narrow; too few values never are.
fn narrow(mut logarithms: Vec<f64>) -> bool {
    logarithms.sort_by(f64::total_cmp);
    logarithms.len() >= FEWEST_BLOCKS
        && enclosing(&logarithms).is_some_and(|(low, high)| (high - low) / 2.0 < NARROW)
}

/// The logarithm of the ratio for each block in which both samples are positive.
fn paired_logarithms(baseline: &[f64], kernel: &[f64]) -> Vec<f64> {
    baseline
        .iter()
        .zip(kernel)
        .filter(|(baseline, kernel)| **baseline > 0.0 && **kernel > 0.0)
        .map(|(baseline, kernel)| baseline.ln() - kernel.ln())
        .collect()
}

/// The order statistics that enclose the median of the law behind these values with 95% at least; `None` for too few.
fn enclosing(ordered: &[f64]) -> Option<(f64, f64)> {
    let rank = rank(ordered.len()).checked_sub(1)?;
    Some((ordered[rank], ordered[ordered.len() - 1 - rank]))
}

/// The largest k for which the k-th smallest and the k-th largest of so many samples enclose the median with 95% at
/// least: of a continuous law, each sample lies below its median with one half, so the count of those that do is
/// binomial. Zero for fewer than six samples.
fn rank(count: usize) -> usize {
    let total = count as f64;
    let mut logarithm = -total * std::f64::consts::LN_2;
    let (mut below, mut rank) = (logarithm.exp(), 0);
    while below < 0.025 && rank < count {
        logarithm += ((total - rank as f64) / (rank as f64 + 1.0)).ln();
        rank += 1;
        below += logarithm.exp();
    }
    rank
}

/// The median of values in any order, which it sorts.
fn sorted_median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    median_of_ordered(values)
}

/// The 2.5th and 97.5th percentile of a statistic of resamples; `None` without values.
fn bootstrap(values: &[f64], statistic: impl Fn(&mut [f64]) -> Option<f64>) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let mut random = SplitMix(SEED);
    let mut resample = vec![0.0; values.len()];
    let mut found: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            resample.fill_with(|| values[random.below(values.len())]);
            statistic(&mut resample)
        })
        .collect();
    found.sort_by(f64::total_cmp);
    // Symmetric ranks: as many values lie below the lower end as above the upper one.
    let outside = RESAMPLES / 40;
    Some((found[outside], found[RESAMPLES - 1 - outside]))
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

    /// What scipy says; the file tells how it was asked.
    #[derive(serde::Deserialize)]
    struct Scipy {
        ranks: Vec<usize>,
        sample: Vec<Sample>,
    }

    #[derive(serde::Deserialize)]
    struct Sample {
        law: String,
        values: Vec<f64>,
        low: [f64; 2],
        high: [f64; 2],
    }

    fn scipy() -> Scipy {
        toml::from_str(include_str!("../../../tests/statistics/scipy.toml")).unwrap()
    }

    #[test]
    fn ranks_are_those_of_scipy() {
        let expected = scipy().ranks;
        assert_eq!(expected.len(), MOST_BLOCKS);
        for (at, expected) in expected.into_iter().enumerate() {
            assert_eq!(rank(at + 1), expected, "{} samples", at + 1);
        }
        assert_eq!(rank(0), 0);
        // Beyond the table: half of the count less 0.98 of its root.
        assert_eq!(rank(100_000), 49_690);
    }

    #[test]
    fn the_bootstrap_is_that_of_scipy() {
        for Sample { law, values, low, high } in scipy().sample {
            // Other random numbers may give the next sample: an end lies between the neighbours of what scipy found.
            let mut ordered = values.clone();
            ordered.sort_by(f64::total_cmp);
            let before =
                |end: f64| ordered.iter().rfind(|value| **value < end - 1e-6).copied().unwrap_or(end);
            let after = |end: f64| ordered.iter().find(|value| **value > end + 1e-6).copied().unwrap_or(end);
            let found = bootstrap(&values, sorted_median).unwrap();
            let around = |[least, most]: [f64; 2]| before(least)..=after(most);
            assert!(around(low).contains(&found.0), "{law}: {found:?}, not {low:?}");
            assert!(around(high).contains(&found.1), "{law}: {found:?}, not {high:?}");
        }
    }

    #[test]
    fn sampling_ends_when_every_ratio_is_narrow() {
        let steady = |count| vec![1e-5; count];
        let noisy: Vec<f64> = (0..300).map(|at| if at % 2 == 0 { 1e-5 } else { 1.2e-5 }).collect();
        assert!(!enough(&steady(15), &[&steady(15)]), "not narrow five blocks ago");
        assert!(enough(&steady(20), &[&steady(20)]));
        assert!(!enough(&steady(21), &[&steady(21)]), "asked at every fifth block");
        assert!(!enough(&steady(20), &[&steady(20), &noisy[..20]]), "one rival is not known");
        assert!(!enough(&steady(20), &[&steady(12)]), "a rival without enough samples");
        assert!(!enough(&steady(295), &[&noisy[..295]]));
        assert!(enough(&steady(300), &[&noisy]));
        assert!(enough(&steady(20), &[]) && !enough(&[], &[]));
    }

    /// A start with a tight interval.
    fn tight(ratio: f64) -> Interval {
        Interval { median: ratio, low: ratio * 0.999, high: ratio * 1.001 }
    }

    #[test]
    fn starts_that_agree_keep_a_narrow_interval() {
        let found = over_starts(&[1.400, 1.401, 1.402].map(tight)).unwrap();
        assert!((found.median - 1.401).abs() < 1e-12, "{found:?}");
        // The deviation is a thousandth; 4.303 / 1.732 of it is 2.48 thousandths. The starts' own ends are nearer.
        assert!((found.low - 1.39852).abs() < 2e-5 && (found.high - 1.40348).abs() < 2e-5, "{found:?}");
        // A start that is known worse than starts differ decides.
        let rough = Interval { median: 1.401, low: 1.2, high: 1.6 };
        let found = over_starts(&[tight(1.4), rough, tight(1.402)]).unwrap();
        assert!((found.low - 1.2).abs() < 1e-12 && (found.high - 1.6).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn starts_that_differ_by_five_percent_are_all_in_the_interval() {
        let starts = [1.00, 1.05, 1.02];
        let found = over_starts(&starts.map(tight)).unwrap();
        assert!((found.median - 1.02).abs() < 1e-12, "{found:?}");
        assert!(starts.iter().all(|start| found.low < start * 0.999 && start * 1.001 < found.high));
        // By hand: logarithms 0, 0.04879, 0.01980; mean 0.02286, deviation 0.02454, half 0.06096.
        assert!((found.low - 0.96262).abs() < 1e-4 && (found.high - 1.08744).abs() < 1e-4, "{found:?}");
        // One more start may be twice as far away: the root of 1 + 1/3 over that of 1/3.
        let (low, high) = one_more(&starts).unwrap();
        assert!((low - 0.90566).abs() < 1e-4 && (high - 1.15582).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn one_start_says_nothing_about_others() {
        let one = tight(1.4);
        let found = over_starts(&[one]).unwrap();
        assert!((found.low - one.low).abs() < 1e-12 && (found.high - one.high).abs() < 1e-12, "{found:?}");
        assert_eq!(over_starts(&[]), None);
        assert_eq!(one_more(&[1.4]), None);
        let two = over_starts(&[1.00, 1.01].map(tight)).unwrap();
        assert!(two.low < 0.95 && two.high > 1.06, "two starts say little: {two:?}");
    }

    /// A number of the normal law.
    fn normal(random: &mut SplitMix) -> f64 {
        let mut uniform = || (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
    }

    #[test]
    fn the_interval_over_starts_holds_the_truth() {
        let mut random = SplitMix(7);
        for (count, deviation) in [(2, 0.02), (3, 0.001), (3, 0.02), (3, 0.09), (5, 0.02)] {
            let mut start = || tight((deviation * normal(&mut random)).exp());
            let held = (0..4000).filter(|_| {
                let starts: Vec<Interval> = (0..count).map(|_| start()).collect();
                over_starts(&starts).is_some_and(|found| found.low <= 1.0 && 1.0 <= found.high)
            });
            let part = held.count() as f64 / 4000.0;
            assert!(part >= 0.94, "{part} of {count} starts, deviation {deviation}");
        }
    }

    /// Of equal contenders with so much noise, in which part of the runs that end by [`enough`] the order statistics
    /// hold one: at most that of [`paired_ratio`], which reaches at least as far.
    fn coverage(noise: f64, heavy_tails: bool) -> f64 {
        const RUNS: usize = 1000;
        let mut random = SplitMix(noise.to_bits());
        let mut uniform = move || (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        let mut held = 0;
        for _ in 0..RUNS {
            let (mut kernel, mut rival) = (vec![], vec![]);
            while !enough(&kernel, &[&rival]) {
                // Box and Muller; divided by an exponential's root, it is Student's t with two degrees of freedom.
                let mut deviate =
                    (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
                if heavy_tails {
                    deviate /= 1.6 * (-(1.0 - uniform()).ln()).sqrt();
                }
                kernel.push(1.0);
                rival.push((noise * deviate).exp());
            }
            let mut logarithms = paired_logarithms(&rival, &kernel);
            logarithms.sort_by(f64::total_cmp);
            held += usize::from(enclosing(&logarithms).is_some_and(|(low, high)| low <= 0.0 && 0.0 <= high));
        }
        held as f64 / RUNS as f64
    }

    #[test]
    fn stopping_early_costs_little_of_the_confidence() {
        for (noise, heavy_tails) in
            [(0.005, false), (0.01, false), (0.015, false), (0.01, true), (0.02, true)]
        {
            let coverage = coverage(noise, heavy_tails);
            assert!(coverage >= 0.93, "{coverage} at noise {noise}, heavy tails: {heavy_tails}");
        }
    }

    #[test]
    fn samples_that_are_no_times_are_left_out() {
        assert_eq!(paired_ratio(&[1.0], &[0.0]), None);
        assert_eq!(paired_ratio(&[], &[]), None);
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
