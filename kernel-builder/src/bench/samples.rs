//! Samples of a case, as the rounds make them.
//!
//! Owns: what a case and a regime have besides samples. Never: measures.

use std::collections::BTreeMap;
use std::time::Duration;

use super::contender::{LeftOut, Regime};
use super::cupti::Cupti;
use super::record::SkippedContender;

/// The contender that is judged.
pub(super) const KERNEL: &str = "kernel";

/// A case with the samples of every regime.
#[derive(Debug, PartialEq)]
pub(super) struct MeasuredCase {
    pub(super) bytes: u64,
    /// Input sets over which the kernel's calls rotate.
    pub(super) sets: u64,
    pub(super) regimes: Vec<Samples>,
    pub(super) notes: Vec<String>,
    /// What NVIDIA's tracer saw of calls, where it was asked.
    pub(super) cupti: Option<Cupti>,
}

/// The samples of one regime.
#[derive(Debug, PartialEq)]
pub(super) struct Samples {
    pub(super) regime: Regime,
    /// Seconds a call, one sample a block, by contender.
    pub(super) samples: BTreeMap<String, Vec<f64>>,
    /// Calls in each sample, by contender.
    pub(super) calls: BTreeMap<String, u64>,
    pub(super) skipped: Vec<SkippedContender>,
    /// Processors that others took; see [`super::Cpu`].
    pub(super) crowded: Option<f64>,
    /// Time that the samples took.
    pub(super) spent: Duration,
}

/// Contenders that are not timed in a regime, as records name them.
pub(super) fn left_out(skipped: &[LeftOut], regime: Regime) -> Vec<SkippedContender> {
    skipped
        .iter()
        .filter(|one| one.regime.is_none_or(|only| only == regime))
        .map(|one| SkippedContender { name: one.name.clone(), reason: one.reason.clone() })
        .collect()
}
