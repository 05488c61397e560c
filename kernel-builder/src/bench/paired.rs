//! Two settings of one candidate, held against each other by samples that were taken in turn.
//!
//! Owns: what of two settings is called faster, and when that is known. Never: takes a sample.

use super::{known, stats};
use crate::agent::gain::Gain;

/// The version of the way settings are searched and held against each other.
pub(crate) const PROTOCOL: u32 = 3;
/// Rounds that are taken in any case.
pub(crate) const FEWEST: usize = stats::FEWEST_BLOCKS;

/// The middle of some numbers.
pub(crate) fn middle(values: &[f64]) -> Option<f64> {
    stats::median(values)
}

/// How many times faster `chosen` is than `default`, with its 95% interval.
pub(crate) fn gain(default: &[f64], chosen: &[f64]) -> Option<Gain> {
    let found = stats::paired_ratio(default, chosen)?;
    Some(Gain { ratio: found.median, low: found.low, high: found.high })
}

/// Paired samples on one workload.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Paired {
    /// Its share.
    pub(crate) weight: f64,
    /// Seconds of the default.
    pub(crate) default: Vec<f64>,
    /// Seconds of the other one.
    pub(crate) chosen: Vec<f64>,
}

/// How many times faster `chosen` is than `default` over several workloads: the geometric mean by weights, with its 95%
/// interval. Of more samples than the shortest list has, the rest is left out.
pub(crate) fn geometric(workloads: &[Paired]) -> Option<Gain> {
    let all: f64 = workloads.iter().map(|workload| workload.weight).sum();
    let count = workloads.iter().map(|workload| workload.default.len().min(workload.chosen.len())).min()?;
    let mean = |at: usize| {
        let logarithm = |one: &Paired| one.weight * (one.default[at] / one.chosen[at]).ln();
        (workloads.iter().map(logarithm).sum::<f64>() / all).exp()
    };
    let ratios: Vec<f64> = (0..count).map(mean).collect();
    gain(&ratios, &vec![1.0; count])
}

/// Whether that is known well enough.
pub(crate) fn is_conclusive(default: &[f64], chosen: &[f64]) -> bool {
    stats::enough(chosen, &[default])
}

/// Whether it is a gain at all: what lies within the interval is none, and an interval that is too wide says nothing.
pub(crate) fn is_gain(gain: &Gain) -> bool {
    gain.low > 1.0 && unknown(gain).is_none()
}

/// Why a gain is not a result, if it is none.
pub(crate) fn unknown(gain: &Gain) -> Option<String> {
    known::too_wide(gain.low, gain.high)
}

/// Why the median of some times is not a result, if it is none.
pub(crate) fn unknown_time(seconds: &[f64]) -> Option<String> {
    known::of_samples(seconds).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_the_interval_is_no_gain() {
        let default = [1.0; 20];
        let noisy: Vec<f64> = (0..20).map(|at| if at % 2 == 0 { 0.9 } else { 1.08 }).collect();
        assert!(!is_gain(&gain(&default, &noisy).unwrap()));
        assert!(is_gain(&gain(&default, &[0.98; 20]).unwrap()));
        assert!(!is_gain(&gain(&default, &default).unwrap()));
        assert_eq!(gain(&[], &[]), None);
    }

    #[test]
    fn a_mean_over_workloads_is_that_of_their_logarithms() {
        let workload =
            |weight, factor: f64| Paired { weight, default: vec![factor; 20], chosen: vec![1.0; 21] };
        let found = geometric(&[workload(1.0, 2.0), workload(3.0, 0.5)]).unwrap();
        assert!((found.ratio - 0.5f64.sqrt()).abs() < 1e-9, "{found:?}");
        assert_eq!(geometric(&[]), None);
        // A gain on one workload that a loss on the other one undoes is none.
        assert!(!is_gain(&geometric(&[workload(1.0, 1.1), workload(1.0, 0.9)]).unwrap()));
    }

    #[test]
    fn an_interval_of_nine_to_672_is_no_gain() {
        let wild = Gain { ratio: 324.0, low: 9.0, high: 672.0 };
        assert!(!is_gain(&wild));
        assert_eq!(unknown(&wild).as_deref(), Some("known only to a factor of 8.64"));
        assert_eq!(unknown(&Gain { ratio: 1.3, low: 1.1, high: 1.6 }), None);
    }
}
