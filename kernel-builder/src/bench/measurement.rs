//! A measurement as it is kept and sent: every number with where it comes from.
//!
//! Owns: the form of the record. Never: computes.

use serde::{Deserialize, Serialize};

use super::statistics::Interval;
use crate::base::digest::Digest;

/// Raised whenever times before and after cannot be compared.
pub const PROTOCOL: u32 = 1;

/// One kernel on one workload, against its baselines, in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// The measured artifact's content.
    pub artifact: Digest,
    /// Its variant.
    pub variant: String,
    /// The workload's name in op.toml.
    pub workload: String,
    /// What the type variables stand for, joined by `,`: `bf16`.
    pub dtype: String,
    /// `host`: calls on the processor. `events`: single calls with a cold cache. `graph`: graphs of calls.
    pub regime: String,
    /// `cpu`, or the GPU's name.
    pub device: String,
    /// The machine.
    pub machine: Machine,
    /// `torch.__version__`.
    pub torch: String,
    /// Seconds since 1970, UTC.
    pub when: u64,
    /// The project's commit, with `+changes` where it has uncommitted ones; absent outside of git.
    pub commit: Option<String>,
    /// [`PROTOCOL`] at the time.
    pub protocol: u32,
    /// The candidate first, then the baselines that ran, then the copy.
    pub contenders: Vec<Contender>,
    /// Baselines that did not run, with the reason.
    pub unavailable: Vec<Unavailable>,
    /// How much faster than each baseline the candidate is.
    pub ratios: Vec<Ratio>,
    /// The copy's median time over the candidate's: 1 is the speed of a copy that moves as many bytes.
    pub of_copy: Option<f64>,
    /// Bytes of inputs and outputs of one call.
    pub bytes: u64,
}

/// What was timed, and how long one call took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contender {
    /// `candidate`, `eager`, `fused`, `compile`, `copy`.
    pub name: String,
    /// Median of the samples, seconds.
    pub median_s: f64,
    /// One a block, seconds for one call; the same place is the same block for every contender.
    pub samples: Vec<f64>,
}

/// A baseline that did not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unavailable {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// The candidate against one baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The baseline.
    pub versus: String,
    /// Baseline time / candidate time, with its 95% interval.
    pub interval: Interval,
}

/// The machine, as far as it says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's name.
    pub cpu: Option<String>,
    /// Threads that every contender may use.
    pub threads: usize,
    /// The frequency governor of the first processor.
    pub governor: Option<String>,
    /// The GPU driver's version.
    pub driver: Option<String>,
    /// Clocks of the GPU under way, as the driver says: `1980 MHz, 3201 MHz`.
    pub clocks: Option<String>,
}
