//! What one measurement says, and everything that it depends on.
//!
//! Owns: the record's fields (one line of records.jsonl) and how raw samples become ratios.
//! Never: measures.

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;

use super::stats::{self, Interval};

/// The version of the measuring protocol: figures of different versions are not compared.
pub const PROTOCOL: u32 = 1;

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
    #[serde(default = "one")]
    pub weight: f64,
    /// Whether the workload is kept from agents and tuners.
    #[serde(default)]
    pub held_out: bool,
    /// The dtype of the type variable, `T=bf16,U=f32` when there are several; that of the first output without any.
    pub dtype: String,
    /// `host` (wall clock of calls on the processor), `cold` (one call on the GPU after a flush of its L2 cache) or
    /// `graph` (calls in a CUDA graph on rotating inputs).
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
    /// What the linter found about the task on this workload, each a code and what it is about; empty where it found
    /// nothing, absent where the task was not linted.
    #[serde(default)]
    pub lint: Option<Vec<String>>,
    /// Every contender with its samples, the kernel first.
    pub contenders: Vec<Contender>,
    /// Contenders that could not be timed.
    pub skipped: Vec<SkippedContender>,
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
}

fn one() -> f64 {
    1.0
}

/// How many times faster the kernel is than one contender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The contender: `eager`, `fused`, `compile`.
    pub versus: String,
    /// Median of the paired ratios contender / kernel.
    pub ratio: f64,
    /// Lower end of the 95% interval.
    pub low: f64,
    /// Upper end of the 95% interval.
    pub high: f64,
}

/// The samples of one contender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// `kernel`, `eager`, `fused`, `compile` or `copy`.
    pub name: String,
    /// Median of the samples, seconds a call.
    pub median_seconds: f64,
    /// Calls in each sample.
    pub calls: u64,
    /// One sample a block, seconds a call; the same index is the same block for every contender.
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

/// Clocks, temperature and power of a GPU; what the driver does not tell is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Clocks {
    /// Clock of the multiprocessors, MHz.
    pub sm_mhz: Option<f64>,
    /// Clock of the memory, MHz.
    pub memory_mhz: Option<f64>,
    /// Temperature of the chip, degrees Celsius.
    pub celsius: Option<f64>,
    /// Power drawn, watts.
    pub watts: Option<f64>,
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

    /// The ratio against this contender.
    pub fn versus(&self, name: &str) -> Option<&Ratio> {
        self.ratios.iter().find(|ratio| ratio.versus == name)
    }
}

/// The ratios of the kernel against every other contender but the copy, in order.
pub(super) fn ratios(contenders: &[Contender]) -> Vec<Ratio> {
    let Some(kernel) = contenders.iter().find(|contender| contender.name == "kernel") else {
        return Vec::new();
    };
    contenders
        .iter()
        .filter(|contender| !matches!(contender.name.as_str(), "kernel" | "copy"))
        .filter_map(|contender| {
            let Interval { median, low, high } = stats::paired_ratio(&contender.samples, &kernel.samples)?;
            Some(Ratio { versus: contender.name.clone(), ratio: median, low, high })
        })
        .collect()
}

/// The kernel's speed as a fraction of a copy's.
pub(super) fn copy_fraction(contenders: &[Contender]) -> Option<f64> {
    let of = |name: &str| contenders.iter().find(|contender| contender.name == name);
    Some(stats::paired_ratio(&of("copy")?.samples, &of("kernel")?.samples)?.median)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

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
            artifact: Digest::of(b"artifact"),
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
            lint: Some(vec!["lint::tiny out".to_owned()]),
            contenders,
            skipped: vec![SkippedContender { name: "compile".to_owned(), reason: "no compiler".to_owned() }],
            driver: Some("580.159".to_owned()),
            clocks: Some(Clocks { sm_mhz: Some(1980.0), ..Clocks::default() }),
            cpu: Cpu { model: "a processor".to_owned(), threads: 2, governor: None, crowded: None },
            torch: "2.11.0+cu130".to_owned(),
            python: "3.12.3".to_owned(),
            commit: None,
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
