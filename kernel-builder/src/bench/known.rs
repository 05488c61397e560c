//! Which figures of a measurement are results.
//!
//! Owns: the rule, and the words on what a figure that is none would take. Never: measures, reads a clock.
//!
//! A figure is a result if every start has [`FEWEST_BLOCKS`] blocks for it, and if its 95% interval says it to within a
//! quarter: the ends are at most [`WIDEST`] apart from the centre, as a factor. All else is "not measured". The limit is
//! generous: the widest of 1222 ratios that an H100 and an H200 gave (bench/results, 2026-11-21 to 24) is known to 5.7%.

use super::record::{Contender, Measurement, Ratio};
use super::samples::KERNEL;
use super::stats::{self, FEWEST_BLOCKS, Interval, MOST_BLOCKS};
use super::unmeasured::{ROOFLINE, Unmeasured, short};

/// The most that half of an interval may be, as a factor.
pub(crate) const WIDEST: f64 = 1.25;
/// The most starts that `--starts` takes.
const MOST_STARTS: usize = 20;
/// Samples of which the least and the greatest enclose the median with 95% at least.
pub(crate) const FEWEST_SAMPLES: usize = 6;

/// Samples behind one figure, by start.
struct SampleIntervals {
    blocks: usize,
    starts: Vec<Interval>,
    /// Of all starts.
    whole: Option<Interval>,
}

impl SampleIntervals {
    /// Of one list of values for each start: positive ones, one a block.
    fn from_starts(starts: &[Vec<f64>]) -> Self {
        let blocks = starts.iter().map(Vec::len).min().unwrap_or(0);
        let starts: Vec<Interval> = starts.iter().filter_map(|values| stats::enclosed(values)).collect();
        let whole = stats::over_starts(&starts);
        Self { blocks, starts, whole }
    }

    fn is_enough(&self) -> bool {
        self.blocks >= FEWEST_BLOCKS && self.whole.as_ref().is_some_and(|whole| factor(whole) <= WIDEST)
    }

    /// The figure as one that is not known. `seconds` is what all samples took.
    fn unmeasured(&self, figure: String, seconds: Option<f64>) -> Unmeasured {
        let widest = self.starts.iter().map(factor).fold(1.0, f64::max);
        let medians: Vec<f64> = self.starts.iter().map(|start| start.median).collect();
        let blocks = self.blocks as f64;
        let (mut needs, mut starts) = (None, None);
        if self.blocks < FEWEST_BLOCKS {
            needs = Some(FEWEST_BLOCKS as f64);
        } else if widest > WIDEST {
            // Intervals become narrower with the root of the number of samples.
            needs = Some(blocks * (widest.ln() / WIDEST.ln()).powi(2));
        } else {
            starts = stats::starts_for(&medians, WIDEST, MOST_STARTS).map(|starts| starts as u64);
        }
        let needs = needs.map(f64::ceil).filter(|needs| *needs <= MOST_BLOCKS as f64);
        // A fifth more, so that what is printed is enough.
        let budget = needs.zip(seconds.filter(|_| blocks > 0.0));
        let budget = budget.map(|(needs, seconds)| (1.2 * seconds * needs / blocks).ceil().max(1.0));
        let factor = self.whole.as_ref().map(factor).filter(|factor| factor.is_finite());
        let needs = needs.map(|needs| needs as u64);
        Unmeasured { figure, blocks: self.blocks as u64, factor, needs, budget, starts }
    }
}

/// How far the ends of an interval are from its centre.
fn factor(interval: &Interval) -> f64 {
    (interval.high / interval.low).sqrt()
}

/// Why an interval is too wide for a result, if it is.
pub(crate) fn too_wide(low: f64, high: f64) -> Option<String> {
    let factor = factor(&Interval { median: low, low, high });
    let is_narrow = low > 0.0 && factor <= WIDEST;
    (!is_narrow).then(|| format!("known only to a factor of {}", short(factor)))
}

/// Whether so many samples say their median well enough, for figures without blocks; else why not.
pub(crate) fn of_samples(samples: &[f64]) -> Result<(), String> {
    if samples.len() < FEWEST_SAMPLES {
        return Err(format!("{} samples, but a result needs {FEWEST_SAMPLES}", samples.len()));
    }
    match stats::enclosed(samples).as_ref().map(factor) {
        Some(factor) if factor <= WIDEST => Ok(()),
        Some(factor) => Err(format!(
            "{} samples say it only to a factor of {}; take more, on an idle machine",
            samples.len(),
            short(factor)
        )),
        None => Err("no sample is a valid time".to_owned()),
    }
}

impl Measurement {
    /// Seconds a call of the kernel, if that is a result.
    pub fn time(&self) -> Option<f64> {
        let known = self.unmeasured.iter().all(|one| one.figure != "time");
        self.contender(KERNEL).filter(|_| known).map(|kernel| kernel.median_seconds)
    }

    /// Whether any figure of it is a result.
    pub fn has_results(&self) -> bool {
        self.time().is_some() || !self.ratios.is_empty()
    }

    /// Why the ratio against a contender is no result, if it was sampled.
    pub fn unmeasured_versus(&self, name: &str) -> Option<&Unmeasured> {
        self.unmeasured.iter().find(|one| one.figure.strip_prefix("vs ") == Some(name))
    }

    /// With what is no result among the figures that are not measured. It may be done again without a change.
    #[must_use]
    pub(crate) fn settled(mut self) -> Self {
        let Some(kernel) = self.contender(KERNEL).cloned() else { return self };
        let seconds = self.sampled_seconds;
        let lengths = self.lengths(&kernel);
        let mut unmeasured = std::mem::take(&mut self.unmeasured);
        let mut found = |figure: String, evidence: &SampleIntervals| {
            if unmeasured.iter().all(|one| one.figure != figure) {
                unmeasured.push(evidence.unmeasured(figure, seconds));
            }
        };
        let ratios = std::mem::take(&mut self.ratios);
        for ratio in ratios {
            let evidence = of_ratio(&ratio, self.contender(&ratio.versus), &kernel, &lengths);
            if evidence.is_enough() {
                self.ratios.push(ratio);
            } else {
                found(format!("vs {}", ratio.versus), &evidence);
            }
        }
        let time = SampleIntervals::from_starts(&split(&kernel.samples, &lengths, |seconds| *seconds));
        if !time.is_enough() {
            found("time".to_owned(), &time);
            if self.roofline.take().is_some() {
                found(ROOFLINE.to_owned(), &time);
            }
        }
        let ceilings = ["copy", "peak"].map(|name| {
            let pairs = self.contender(name).map(|ceiling| pairs(ceiling, &kernel, &lengths));
            pairs.map(|pairs| SampleIntervals::from_starts(&pairs))
        });
        if let Some(copy) = ceilings[0].as_ref().filter(|copy| !copy.is_enough()) {
            found(ROOFLINE.to_owned(), copy);
            self.copy_fraction = None;
            self.roofline.iter_mut().for_each(|roofline| roofline.of_copy = None);
        }
        if let Some(peak) = ceilings[1].as_ref().filter(|peak| !peak.is_enough()) {
            found(ROOFLINE.to_owned(), peak);
            self.roofline.iter_mut().for_each(|roofline| roofline.of_matrix_peak = None);
        }
        self.unmeasured = unmeasured;
        self
    }

    /// Samples of each start.
    fn lengths(&self, kernel: &Contender) -> Vec<usize> {
        let told: Vec<usize> = self.starts.iter().map(|count| *count as usize).collect();
        match told.iter().sum::<usize>() == kernel.samples.len() {
            true if !told.is_empty() => told,
            _ => vec![kernel.samples.len()],
        }
    }
}

/// Evidence for a ratio: its interval and its blocks.
fn of_ratio(
    ratio: &Ratio,
    rival: Option<&Contender>,
    kernel: &Contender,
    lengths: &[usize],
) -> SampleIntervals {
    let pairs = rival.map(|rival| pairs(rival, kernel, lengths)).unwrap_or_default();
    let whole = Interval { median: ratio.ratio, low: ratio.low, high: ratio.high };
    let is_interval = whole.low > 0.0 && whole.high.is_finite() && whole.low <= whole.high;
    SampleIntervals { whole: is_interval.then_some(whole), ..SampleIntervals::from_starts(&pairs) }
}

/// The ratios of each start, block by block.
fn pairs(rival: &Contender, kernel: &Contender, lengths: &[usize]) -> Vec<Vec<f64>> {
    let both: Vec<(f64, f64)> = rival.samples.iter().copied().zip(kernel.samples.iter().copied()).collect();
    split(&both, lengths, |(rival, kernel)| rival / kernel)
}

/// The positive values of each start.
fn split<T>(samples: &[T], lengths: &[usize], of: impl Fn(&T) -> f64) -> Vec<Vec<f64>> {
    let mut rest = samples;
    let take = |length: &usize| {
        let (start, after) = rest.split_at((*length).min(rest.len()));
        rest = after;
        start.iter().map(&of).filter(|value| value.is_finite() && *value > 0.0).collect()
    };
    lengths.iter().map(take).collect()
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
