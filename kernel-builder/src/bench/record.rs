//! What one measurement says, and everything that it depends on.
//!
//! Owns: the record's fields (one line of records.jsonl) and how raw samples become ratios.
//! Never: measures.

use std::collections::BTreeMap;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{AxisKind, Case};
use kernel_plan::units::Dtype;
use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;

use super::candidate::Candidate;
use super::cupti::Cupti;
use super::stats::{self, Interval};
use super::unmeasured::Unmeasured;

/// The version of the measuring protocol: figures of different versions are not compared.
pub const PROTOCOL: u32 = 6;

/// One workload with one dtype, measured in one regime on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The version of the protocol; [`PROTOCOL`].
    pub protocol: u32,
    /// The artifact that was measured.
    pub artifact: Digest,
    /// Its variant.
    pub variant: String,
    /// The operation's name.
    pub op: String,
    /// The workload's name in op.toml.
    pub workload: String,
    /// The workload's share of a score over several; 1 in lines from before it was recorded.
    #[serde(default = "whole_weight")]
    pub weight: f64,
    /// Whether the workload is kept from agents and tuners.
    #[serde(default)]
    pub held_out: bool,
    /// The dtype of the type variable, `T=bf16,U=f32` when there are several; that of the first output without any.
    pub dtype: String,
    /// `host` (wall clock of calls on the processor), `cold` (one call on the GPU after a flush of its L2 cache), `graph`
    /// (calls in a CUDA graph on rotating inputs) or `hot` (calls in a CUDA graph on the same inputs).
    pub regime: String,
    /// The processor's model, or the GPU's name.
    pub device: String,
    /// Day of the measurement, `YYYY-MM-DD`, UTC.
    pub date: String,
    /// How many times faster the kernel is than each baseline: above one, the kernel wins.
    pub ratios: Vec<Ratio>,
    /// Time of a copy of the same number of bytes over the kernel's time: one is the ceiling of an operation that is
    /// bound by memory. Absent when no copy was timed.
    pub copy_fraction: Option<f64>,
    /// Bytes that the operation reads and writes at least: its inputs and outputs.
    pub bytes: u64,
    /// Whether outputs of timed calls were compared with the reference in float64. Measurements that fail are errors.
    pub checked: bool,
    /// Every contender with its samples, the kernel first.
    pub contenders: Vec<Contender>,
    /// Contenders that could not be timed.
    pub skipped: Vec<SkippedContender>,
    /// What decides how the baselines compute (tf32, workspaces, modes), and what was seen beside the samples.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The driver's version, for a GPU.
    pub driver: Option<String>,
    /// The state of the GPU just after the case, for a GPU.
    pub clocks: Option<Clocks>,
    /// The processor, which also feeds a GPU.
    pub cpu: Cpu,
    /// `torch.__version__`.
    pub torch: String,
    /// The interpreter's version.
    pub python: String,
    /// The project's commit, `-dirty` with changes; absent outside a repository.
    pub commit: Option<String>,
    /// The lengths of the axes that vary.
    #[serde(default)]
    pub axes: BTreeMap<String, u64>,
    /// What was measured, as it was made.
    #[serde(default)]
    pub candidate: Option<Candidate>,
    /// How near the kernel comes to what the machine can do.
    #[serde(default)]
    pub roofline: Option<Roofline>,
    /// Whether the GPU held its clock down meanwhile.
    #[serde(default)]
    pub throttled: bool,
    /// Codes of what the linter found about the task; absent when it was not asked.
    #[serde(default)]
    pub lint: Option<Vec<String>>,
    /// What NVIDIA's tracer saw of calls of the case, in whichever regime; absent for processors and device code.
    #[serde(default)]
    pub cupti: Option<Cupti>,
    /// Seconds that sampling was allowed, of all starts together.
    #[serde(default)]
    pub budget: Option<f64>,
    /// Seconds that its samples took, of all starts together.
    #[serde(default)]
    pub sampled_seconds: Option<f64>,
    /// Figures that were sampled and are no results.
    #[serde(default)]
    pub unmeasured: Vec<Unmeasured>,
    /// Blocks of each start of the processes, in order: the first of these numbers is how many of the first samples belong
    /// to the first start. Empty in lines from before protocol 6, which are of one start.
    #[serde(default)]
    pub starts: Vec<u64>,
    /// The seed of a case that `bench --drawn` drew; absent for workloads of op.toml.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<u64>,
}

/// How near the kernel comes to what the machine can do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    /// Bytes of inputs and outputs over the kernel's time, in 10^9 a second.
    pub gigabytes_per_second: f64,
    /// That, as a part of what a copy of as many bytes reaches: the ceiling of what is bound by memory.
    pub of_copy: Option<f64>,
    /// Multiplications and additions over the kernel's time, in 10^12 a second; for products of matrices.
    pub teraflops_per_second: Option<f64>,
    /// That, as a part of the highest that was measured on this device: the ceiling of what is bound by arithmetic.
    pub of_matrix_peak: Option<f64>,
}

impl Roofline {
    /// The part of the nearer ceiling: an operation cannot pass either.
    pub fn fraction(&self) -> Option<f64> {
        [self.of_copy, self.of_matrix_peak].into_iter().flatten().max_by(f64::total_cmp)
    }
}

/// What is known of a candidate and its task before anything is timed.
#[derive(Debug, Clone, Default)]
pub struct RunContext {
    /// What is measured, as it was made.
    pub candidate: Option<Candidate>,
    /// What the linter found; absent when it was not asked.
    pub lint: Option<Vec<String>>,
    /// What the auditor of baselines states.
    pub notes: Vec<String>,
    /// The highest rate of matrix products measured on this device, in 10^12 operations a second, by dtype.
    pub matrix_peak: BTreeMap<String, f64>,
    /// The same rates at the highest clock of the device, which no product can pass.
    pub matrix_limit: BTreeMap<String, f64>,
}

fn whole_weight() -> f64 {
    1.0
}

/// How many times faster the kernel is than one contender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The contender: `eager`, `fused`, `compile`.
    pub versus: String,
    /// Median of the paired ratios contender / kernel; of several starts the median of theirs.
    pub ratio: f64,
    /// Lower end of the 95% interval; of several starts it covers how they differ.
    pub low: f64,
    /// Upper end of the 95% interval.
    pub high: f64,
    /// The ratio of each start, in order. Empty in lines from before protocol 6, which are of one start.
    #[serde(default)]
    pub starts: Vec<f64>,
}

/// The samples of one contender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// `kernel`, `eager`, `fused`, `compile`, `compile-max`, `cublaslt`, `cublaslt-tuned`, `cublaslt-turned`, or a
    /// ceiling: `copy`, `peak`.
    pub name: String,
    /// Median of the samples, seconds a call; of several starts the median of theirs.
    pub median_seconds: f64,
    /// Calls in each sample; of several starts that of the first.
    pub calls: u64,
    /// One sample a block, seconds a call, one start after the other; the same index is the same block for every contender.
    pub samples: Vec<f64>,
}

/// A contender that could not be timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkippedContender {
    /// The contender.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Clocks, temperature and power of a GPU while it worked: the middle of several readings; what the driver does not tell
/// is absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Clocks {
    /// Clock of the multiprocessors, MHz.
    pub sm_mhz: Option<f64>,
    /// Clock of the memory, MHz.
    pub memory_mhz: Option<f64>,
    /// Temperature of the chip, degrees Celsius.
    pub celsius: Option<f64>,
    /// Power drawn, watts.
    pub watts: Option<f64>,
    /// The lowest clock of the multiprocessors that was read, MHz.
    #[serde(default)]
    pub sm_lowest_mhz: Option<f64>,
    /// The highest clock that they can have, MHz.
    #[serde(default)]
    pub sm_most_mhz: Option<f64>,
    /// Why the clock was not higher, in the driver's words: `sw_power_cap`, `hw_thermal_slowdown`.
    #[serde(default)]
    pub throttle: Vec<String>,
    /// How many readings there are; 0 in lines of protocol 1, which have one from after the case.
    #[serde(default)]
    pub readings: u64,
}

impl Clocks {
    /// The highest clock of the multiprocessors over the one they had, at least one.
    pub(crate) fn headroom(&self) -> Option<f64> {
        let (now, most) = (self.sm_mhz.filter(|now| *now > 0.0)?, self.sm_most_mhz?);
        Some((most / now).max(1.0))
    }
}

/// The processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The model's name.
    pub model: String,
    /// Threads that PyTorch was told to use; the same for every contender.
    pub threads: u64,
    /// The frequency governor, where the system tells.
    pub governor: Option<String>,
    /// How many of the processors that the contenders were to have other processes took meanwhile, on average;
    /// absent for a GPU, and where the system does not tell.
    pub crowded: Option<f64>,
}

impl Measurement {
    /// The contender of this name.
    pub fn contender(&self, name: &str) -> Option<&Contender> {
        self.contenders.iter().find(|contender| contender.name == name)
    }

    /// Whether its ratios may be claimed or decide anything. In `hot` every call has the same inputs, so a kernel that
    /// remembers a result cannot be told from one that is fast: its figures are for information.
    pub fn is_result(&self) -> bool {
        self.regime != "hot"
    }

    /// How many starts of the processes it is of. The interval of a single start does not say how starts differ.
    pub fn starts(&self) -> usize {
        self.starts.len().max(1)
    }

    /// The ratio against this contender.
    pub fn versus(&self, name: &str) -> Option<&Ratio> {
        self.ratios.iter().find(|ratio| ratio.versus == name)
    }
}

/// The ratios of the kernel against every other contender but the ceilings, in order.
pub(super) fn ratios(contenders: &[Contender]) -> Vec<Ratio> {
    let Some(kernel) = contenders.iter().find(|contender| contender.name == "kernel") else {
        return Vec::new();
    };
    contenders
        .iter()
        .filter(|contender| !matches!(contender.name.as_str(), "kernel" | "copy" | "peak"))
        .filter_map(|contender| {
            let Interval { median, low, high } = stats::paired_ratio(&contender.samples, &kernel.samples)?;
            let (versus, starts) = (contender.name.clone(), vec![median]);
            Some(Ratio { versus, ratio: median, low, high, starts })
        })
        .collect()
}

/// The kernel's speed as a fraction of a copy's.
pub(super) fn copy_fraction(contenders: &[Contender]) -> Option<f64> {
    part_of("copy", contenders)
}

/// The kernel's speed as a part of a ceiling's, which was timed like a contender.
fn part_of(ceiling: &str, contenders: &[Contender]) -> Option<f64> {
    let of = |name: &str| contenders.iter().find(|contender| contender.name == name);
    Some(stats::paired_ratio(&of(ceiling)?.samples, &of("kernel")?.samples)?.median)
}

/// The lengths of a case's axes, without those that op.toml fixes.
pub(super) fn axes(op: &OpSpec, case: &Case) -> BTreeMap<String, u64> {
    let varies = |name: &str| {
        op.axes
            .iter()
            .any(|axis| axis.name.value.as_str() == name && !matches!(axis.kind, AxisKind::Const(_)))
    };
    let lengths = case.axes.iter().filter(|(name, _)| varies(name.as_str()));
    lengths.map(|(name, length)| (name.to_string(), *length)).collect()
}

/// Whether an operation is a product of matrices, as op.toml says by its `op-type`.
pub(crate) fn multiplies(op: &OpSpec) -> bool {
    let kind = op.flashinfer.as_ref().and_then(|section| section.op_type.as_deref());
    matches!(kind, Some("gemm" | "bmm"))
}

/// Multiplications and additions of a product of matrices; `None` for all else, whose count nobody declares.
pub(super) fn operations(op: &OpSpec, case: &Case) -> Option<f64> {
    let output = case.outputs.first().filter(|_| multiplies(op))?;
    let elements: f64 = output.shape.iter().map(|length| *length as f64).product();
    Some(2.0 * elements * case.accumulated as f64)
}

/// The dtype of the matrices that a case multiplies, if they have the same one.
pub(super) fn operands_of(case: &Case) -> Option<Dtype> {
    let mut dtypes = case.inputs.iter().filter(|input| input.shape.len() > 1).map(|input| input.dtype);
    let first = dtypes.next()?;
    dtypes.all(|other| other == first).then_some(first)
}

/// Rates of the kernel, and what they are of the ceilings. `None` when the kernel was not timed. The peak of matrix products
/// is that of the same run, where it was timed (`peak`, as long as the operation's own count takes at it), else what is
/// known of the device.
pub(super) fn roofline(
    contenders: &[Contender],
    bytes: u64,
    operations: Option<f64>,
    matrix_peak: Option<f64>,
) -> Option<Roofline> {
    let seconds = contenders.iter().find(|contender| contender.name == "kernel")?.median_seconds;
    let teraflops_per_second = operations.map(|count| count / seconds * 1e-12);
    Some(Roofline {
        gigabytes_per_second: bytes as f64 / seconds * 1e-9,
        of_copy: copy_fraction(contenders),
        teraflops_per_second,
        of_matrix_peak: part_of("peak", contenders)
            .or_else(|| teraflops_per_second.and_then(|rate| Some(rate / matrix_peak?))),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::candidate;
    use super::*;
    use crate::archive::old_records::old_record;

    fn contender(name: &str, seconds: f64) -> Contender {
        Contender { name: name.to_owned(), median_seconds: seconds, calls: 1, samples: vec![seconds; 15] }
    }

    /// A measurement with exact figures, for the tests of what consumes measurements.
    pub(in crate::bench) fn example() -> Measurement {
        let contenders = vec![
            contender("kernel", 10e-6),
            contender("eager", 64e-6),
            contender("fused", 14.2e-6),
            contender("copy", 9.5e-6),
        ];
        Measurement {
            protocol: PROTOCOL,
            artifact: Digest::blake3(b"artifact"),
            variant: "torch-stable-abi211-cu130-x86_64-linux".to_owned(),
            op: "rms_norm".to_owned(),
            workload: "llm-2048x4096".to_owned(),
            weight: 1.0,
            held_out: false,
            dtype: "bf16".to_owned(),
            regime: "graph".to_owned(),
            device: "NVIDIA H200".to_owned(),
            date: "2026-11-21".to_owned(),
            ratios: ratios(&contenders),
            copy_fraction: copy_fraction(&contenders),
            bytes: 33_562_624,
            checked: true,
            skipped: vec![SkippedContender { name: "compile".to_owned(), reason: "no compiler".to_owned() }],
            driver: Some("580.159".to_owned()),
            clocks: Some(Clocks { sm_mhz: Some(1980.0), ..Clocks::default() }),
            cpu: Cpu { model: "a processor".to_owned(), threads: 2, governor: None, crowded: None },
            torch: "2.11.0+cu130".to_owned(),
            python: "3.12.3".to_owned(),
            commit: None,
            axes: BTreeMap::from([("rows".to_owned(), 2048), ("hidden".to_owned(), 4096)]),
            candidate: Some(candidate::tests::example()),
            roofline: roofline(&contenders, 33_562_624, None, None),
            throttled: false,
            lint: Some(vec![]),
            notes: vec!["tf32 is off for matrix products".to_owned()],
            cupti: None,
            budget: Some(2.0),
            sampled_seconds: Some(0.5),
            unmeasured: vec![],
            starts: vec![15],
            drawn: None,
            contenders,
        }
    }

    #[test]
    fn the_nearer_ceiling_counts() {
        let contenders = [contender("kernel", 1e-3), contender("copy", 2e-4)];
        let found = roofline(&contenders, 3_000_000, Some(6e11), Some(750.0)).unwrap();
        assert!((found.gigabytes_per_second - 3.0).abs() < 1e-9);
        assert!((found.teraflops_per_second.unwrap() - 600.0).abs() < 1e-9);
        assert!((found.fraction().unwrap() - 0.8).abs() < 1e-9, "{found:?}");
        assert_eq!(roofline(&contenders[1..], 1, None, None), None);
        let timed = [&contenders[..], &[contender("peak", 6e-4)]].concat();
        let found = roofline(&timed, 3_000_000, Some(6e11), Some(750.0)).unwrap();
        assert!((found.of_matrix_peak.unwrap() - 0.6).abs() < 1e-9, "that of the same run counts");
        assert!(ratios(&timed).is_empty(), "ceilings are no rivals");
    }

    #[test]
    fn records_of_protocol_1_are_read() {
        let kept = [
            old_record("2026-11-21-h200-rms-norm.jsonl"),
            old_record("2026-11-21-h200-rms-norm-again.jsonl"),
        ];
        for line in kept.iter().flat_map(|text| text.lines()) {
            let read: Measurement = serde_json::from_str(line).unwrap();
            assert_eq!((read.protocol, read.candidate.is_none(), read.throttled), (1, true, false));
            assert!(read.axes.is_empty() && read.roofline.is_none() && read.lint.is_none());
            assert!(!read.ratios.is_empty());
        }
    }

    #[test]
    fn records_of_protocol_5_are_of_one_start() {
        let text = old_record("2026-11-24-h100-rms-norm-protocol-5.jsonl");
        for line in text.lines() {
            let read: Measurement = serde_json::from_str(line).unwrap();
            assert_eq!((read.protocol, read.starts(), read.starts.len()), (5, 1, 0));
            assert!(read.ratios.iter().all(|ratio| ratio.starts.is_empty()));
        }
    }

    #[test]
    fn the_kernel_and_the_copy_are_no_rivals() {
        let measurement = example();
        let rivals: Vec<_> = measurement.ratios.iter().map(|ratio| ratio.versus.as_str()).collect();
        assert_eq!(rivals, ["eager", "fused"]);
        assert!((measurement.versus("eager").unwrap().ratio - 6.4).abs() < 1e-9);
        assert!((measurement.copy_fraction.unwrap() - 0.95).abs() < 1e-9);
    }

    #[test]
    fn a_record_reads_back() {
        let measurement = example();
        let line = serde_json::to_string(&measurement).unwrap();
        assert_eq!(serde_json::from_str::<Measurement>(&line).unwrap(), measurement);
    }
}
