//! Whether a time is below what the GPU allows: bytes at the rate of its memory, operations at its peak.
//!
//! Owns: the bytes that must come from memory in each regime, the margin, the message. Never: measures a rate.
//!
//! Every bound is one that no honest kernel passes. A rate that is not known bounds nothing:
//! - `cold`: the L2 cache was flushed, so every input comes from memory. Outputs may stay in the cache as dirty lines.
//! - `graph`: one pass over the input sets may find as many bytes in the cache as it holds, and leave as many there.
//! - `hot`: inputs may be in the cache, whose bandwidth is not measured. Operations are the only bound.
//! - `host`: no ceiling of a processor is measured that a kernel could not pass.

use std::collections::BTreeMap;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, CaseTensor};
use kernel_plan::units::Dtype;

use crate::verify::lab::CandidateRefusal;

use super::contender::Regime;
use super::record;
use super::render;
use super::samples::{KERNEL, Samples};
use super::stats;

/// The code of the refusal.
const CODE: &str = "bench::impossible";
/// A time below this part of the least possible one is refused.
const MARGIN: f64 = 0.95;
/// Bytes of the widest operands, and of the narrowest sums, whose products no narrower type computes faster.
const NARROW: usize = 2;
const SUMS: usize = 4;

/// The bytes and operations of one call.
#[derive(Debug, Clone, PartialEq)]
struct Work {
    /// Bytes of inputs that are read at least.
    inputs: u64,
    /// Bytes of outputs.
    outputs: u64,
    /// Multiplications and additions, for products of matrices.
    operations: Option<f64>,
    /// The dtype of the matrices.
    operands: Option<Dtype>,
    /// Whether products of a narrower type could be faster.
    divisible: bool,
}

/// The rates of one GPU; an absent one bounds nothing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rates {
    /// Bytes a second of its memory, by the driver's clock and bus width.
    pub(crate) memory: Option<f64>,
    /// Bytes of its L2 cache.
    pub(crate) l2: Option<u64>,
    /// Products of matrices at the highest clock, in 10^12 operations a second by dtype.
    pub(crate) matrix: BTreeMap<String, f64>,
    /// The highest clock of the multiprocessors over that during the case, at least one.
    pub(crate) headroom: Option<f64>,
}

impl Rates {
    /// The bounds of one case.
    pub(crate) fn bounds(&self, op: &OpSpec, case: &Case) -> Bounds {
        let work = Work::count(op, case);
        let operations = work.rate(&self.matrix);
        let Self { memory, l2, headroom, .. } = *self;
        Bounds { work, limits: Limits { memory, l2, operations, headroom } }
    }
}

/// [`Rates`] for one case, with operations a second for its operands.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Limits {
    memory: Option<f64>,
    l2: Option<u64>,
    operations: Option<f64>,
    headroom: Option<f64>,
}

/// The work of a case, and the rates that bound its time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bounds {
    work: Work,
    limits: Limits,
}

/// How many calls a graph has, and how many input sets they rotate over.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rotation {
    calls: u64,
    sets: u64,
}

/// A bound, with its reason.
#[derive(Debug, Clone, PartialEq)]
struct LowerBound {
    seconds: f64,
    why: String,
}

impl Work {
    /// The work of a case. An input of indices or of a mask may choose what is read of the others, so only outputs count
    /// then.
    fn count(op: &OpSpec, case: &Case) -> Self {
        let chooses = |input: &&CaseTensor| matches!(input.dtype.as_str(), "i32" | "i64" | "bool");
        let inputs = || case.inputs.iter().filter(|input| !input.omitted);
        let chosen = inputs().any(|input| chooses(&input));
        Self {
            inputs: if chosen { 0 } else { inputs().map(bytes).sum() },
            outputs: case.outputs.iter().map(bytes).sum(),
            operations: record::operations(op, case),
            operands: record::operands_of(case),
            divisible: record::operands_of(case).is_none_or(|dtype| dtype.size_bytes() > NARROW)
                || op.tolerance.accumulate.value.size_bytes() < SUMS,
        }
    }

    /// The highest rate for the operands, in operations a second, of rates in 10^12 a second by dtype. Wide operands may be
    /// computed in pieces of narrower ones, and narrow sums are faster; the highest of all rates counts then.
    fn rate(&self, rates: &BTreeMap<String, f64>) -> Option<f64> {
        let dtype = self.operands?.to_string();
        let rate = if self.divisible {
            rates.values().copied().max_by(f64::total_cmp)
        } else {
            rates.get(&dtype).copied()
        };
        rate.map(|rate| rate * 1e12)
    }

    /// Bytes a call that must pass the bus of the memory; `None` in a regime where that is not known.
    fn moved_bytes(&self, regime: Regime, rotation: Rotation, l2: u64) -> Option<f64> {
        match regime {
            Regime::Cold => Some((self.inputs + self.outputs.saturating_sub(l2)) as f64),
            Regime::Graph => {
                let calls = rotation.calls.max(1);
                let kept = l2.saturating_mul(calls.div_ceil(rotation.sets.max(1)));
                let missed = |bytes: u64| bytes.saturating_mul(calls).saturating_sub(kept);
                Some((missed(self.inputs) + missed(self.outputs)) as f64 / calls as f64)
            }
            Regime::Hot | Regime::Host => None,
        }
    }

    fn by_memory(&self, regime: Regime, rotation: Rotation, limits: &Limits) -> Option<LowerBound> {
        let (bytes, rate) = (self.moved_bytes(regime, rotation, limits.l2?)?, limits.memory?);
        let why = format!("{:.1} MB from memory at {:.2} TB/s", bytes * 1e-6, rate * 1e-12);
        Some(LowerBound { seconds: bytes / rate, why })
    }

    fn by_operations(&self, limits: &Limits) -> Option<LowerBound> {
        let (operations, rate) = (self.operations?, limits.operations?);
        let why = format!("{:.1} GFLOP at {:.0} TFLOP/s", operations * 1e-9, rate * 1e-12);
        Some(LowerBound { seconds: operations / rate, why })
    }
}

/// Bytes of a tensor; those that a broadcast repeats count once.
fn bytes(tensor: &CaseTensor) -> u64 {
    let repeated = |at: usize| tensor.strides.as_ref().is_some_and(|strides| strides.get(at) == Some(&0));
    let lengths = tensor.shape.iter().enumerate().filter(|(at, _)| !repeated(*at));
    let elements = lengths.fold(1u64, |all, (_, length)| all.saturating_mul(*length));
    elements.saturating_mul(tensor.dtype.size_bytes() as u64)
}

/// Why the time of a call in a graph cannot be, for device code that is screened. Every call has memory of its own.
pub(super) fn screened(seconds: f64, calls: usize, bounds: &Bounds) -> Option<CandidateRefusal> {
    let (Bounds { work, limits }, calls) = (bounds, calls as u64);
    let rotation = Rotation { calls, sets: calls };
    let bounds = [work.by_memory(Regime::Graph, rotation, limits), work.by_operations(limits)];
    below(seconds, bounds.into_iter().flatten(), None).map(|text| CandidateRefusal { code: CODE, text })
}

/// Why a figure of a case cannot be, if one of them cannot. `sets`: how many input sets the calls rotate over.
pub(super) fn measured(regimes: &[Samples], sets: u64, bounds: &Bounds) -> Option<String> {
    let Bounds { work, limits } = bounds;
    regimes.iter().filter(|samples| samples.regime != Regime::Host).find_map(|samples| {
        let regime = samples.regime;
        let of = |name: &str| samples.samples.get(name);
        let kernel = of(KERNEL).and_then(|found| stats::median(found))?;
        let calls = samples.calls.get(KERNEL).copied().unwrap_or(1);
        let rotation = Rotation { calls, sets };
        let limits = Limits { memory: memory(samples, rotation, work, limits), ..*limits };
        let bounds = [
            work.by_memory(regime, rotation, &limits),
            [work.by_operations(&limits), peak(samples, work, &limits)].into_iter().flatten().min_by(sooner),
        ];
        let rivals =
            samples.samples.iter().filter(|(name, _)| !matches!(name.as_str(), KERNEL | "copy" | "peak"));
        let rival = rivals.filter_map(|(_, found)| stats::median(found)).min_by(f64::total_cmp);
        let reason = below(kernel, bounds.into_iter().flatten(), rival)?;
        Some(format!("in `{}` {reason}", regime.as_str()))
    })
}

/// The rate of the memory: that of the driver, or of the fastest copy if a copy was faster. A copy alone is no bound, since
/// reading is faster than copying.
fn memory(samples: &Samples, rotation: Rotation, work: &Work, limits: &Limits) -> Option<f64> {
    let half = (work.inputs + work.outputs) / 2;
    let copy = Work { inputs: half, outputs: half, operations: None, operands: None, divisible: true };
    let bytes = limits.l2.and_then(|l2| copy.moved_bytes(samples.regime, rotation, l2));
    let copied = bytes.and_then(|bytes| Some(bytes / fastest(samples, "copy")?));
    limits.memory.map(|rate| copied.map_or(rate, |copied| rate.max(copied)))
}

/// The product of matrices that was timed beside the kernel, at the highest clock. For operands that a narrower type
/// could serve it is not a bound.
fn peak(samples: &Samples, work: &Work, limits: &Limits) -> Option<LowerBound> {
    let seconds =
        fastest(samples, "peak").filter(|_| !work.divisible)? / limits.headroom.unwrap_or(1.0).max(1.0);
    Some(LowerBound { seconds, why: "its operations at the peak of the same run".to_owned() })
}

/// The fastest sample of a contender.
fn fastest(samples: &Samples, name: &str) -> Option<f64> {
    let found = samples.samples.get(name)?.iter().copied();
    found.filter(|seconds| *seconds > 0.0).min_by(f64::total_cmp)
}

fn sooner(one: &LowerBound, other: &LowerBound) -> std::cmp::Ordering {
    one.seconds.total_cmp(&other.seconds)
}

/// The reason, where a time is below the highest bound. A rival that passed a bound shows that the operation needs less
/// than its tensors say.
fn below(seconds: f64, bounds: impl Iterator<Item = LowerBound>, rival: Option<f64>) -> Option<String> {
    let least = bounds.max_by(sooner)?;
    let possible = rival.map_or(least.seconds, |rival| rival.min(least.seconds));
    (seconds < MARGIN * possible).then(|| {
        let (took, needed) = (render::time(seconds), render::time(least.seconds));
        let percent = 100.0 * least.seconds / seconds;
        format!("a call took {took}, but {} takes at least {needed}: {percent:.0}% of the limit", least.why)
    })
}

#[cfg(test)]
#[path = "impossible_tests.rs"]
mod tests;
