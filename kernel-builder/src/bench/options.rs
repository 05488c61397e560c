//! What a run of measurements is asked for, what comes of it, and where it is kept meanwhile.
//!
//! Owns: these types and their defaults. Never: measures.

use kernel_plan::spec::op::Device;

use crate::base::files::FileError;

use super::contender::Regime;
use super::drawn::Draw;
use super::record::{Measurement, RunContext};
use super::skip::SkipReason;

/// The rivals that a run can do without: what is compiled or searched for, which takes tens of seconds.
pub const OPTIONAL_RIVALS: [&str; 5] =
    ["compile", "compile-max", "cublaslt", "cublaslt-tuned", "cublaslt-turned"];

/// The regimes of a GPU that a run can be limited to, as records name them.
pub const REGIMES: [&str; 3] = ["graph", "cold", "hot"];

/// How long, and what.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seconds of sampling for each case and regime in all starts together, at most; each start takes 15 blocks in any case.
    pub budget: f64,
    /// How many times the processes are started; [`starts_on`] the device when absent.
    pub starts: Option<usize>,
    /// Names of workloads; all that op.toml measures when empty.
    pub workloads: Vec<String>,
    /// Cases that are drawn and measured in place of workloads.
    pub drawn: Option<Draw>,
    /// Rivals that are left out, of [`OPTIONAL_RIVALS`].
    pub without: Vec<String>,
    /// The regimes that are measured on a GPU, of [`REGIMES`]; all when empty.
    pub regimes: Vec<String>,
    /// The project's commit, for the record.
    pub commit: Option<String>,
    /// Threads that PyTorch may use, for all contenders; as many as processors when absent.
    pub threads: Option<usize>,
    /// Mixed into the secret that decides inputs and the order of samples.
    pub seed: u64,
    /// What is known of the candidate and its task, for the record.
    pub about: RunContext,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget: 2.0,
            starts: None,
            workloads: Vec::new(),
            drawn: None,
            without: Vec::new(),
            regimes: Vec::new(),
            commit: None,
            threads: None,
            seed: 0x6b77,
            about: RunContext::default(),
        }
    }
}

impl Options {
    /// The regimes to measure. That of a processor is always among them: a device has it or those of a GPU.
    pub(super) fn regimes(&self) -> Vec<Regime> {
        let is_wanted = |regime: &Regime| {
            self.regimes.is_empty()
                || *regime == Regime::Host
                || self.regimes.iter().any(|one| one == regime.as_str())
        };
        Regime::ALL.into_iter().filter(is_wanted).collect()
    }
}

/// Starts of the processes that are enough to say how starts differ.
pub const ENOUGH_STARTS: usize = 3;

/// How many times the processes are started if nothing else is asked for. Figures of a processor are for the machine that
/// measures them, and are measured by every CI run, so they are of one start.
pub fn starts_on(device: Device) -> usize {
    if device == Device::Cpu { 1 } else { ENOUGH_STARTS }
}

/// What came of measuring one artifact.
#[derive(Debug)]
pub enum Outcome {
    /// A measurement for each case and regime.
    Measured(Vec<Measurement>),
    /// It cannot be measured here; the reason.
    Skipped(SkipReason),
}

/// Where the measurements of a run are kept while it goes on.
pub trait MeasurementStore {
    /// What a run like this one, which was interrupted, has measured: of a case one measurement for each regime and start.
    fn earlier_measurements(&self) -> &[Measurement];

    /// Keeps all measurements of one case in one start.
    ///
    /// # Errors
    /// They cannot be written.
    fn keep(&mut self, case: &[Measurement]) -> Result<(), FileError>;
}

/// For whoever wants all figures new and together, or none.
#[derive(Debug, Clone, Copy)]
pub struct KeepNothing;

impl MeasurementStore for KeepNothing {
    fn earlier_measurements(&self) -> &[Measurement] {
        &[]
    }

    fn keep(&mut self, _case: &[Measurement]) -> Result<(), FileError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_all_regimes_or_those_that_are_named() {
        assert_eq!(Options::default().regimes(), Regime::ALL);
        let only = |names: &[&str]| {
            let regimes = names.iter().map(|name| (*name).to_owned()).collect();
            Options { regimes, ..Options::default() }.regimes()
        };
        assert_eq!(only(&["graph"]), [Regime::Host, Regime::Graph]);
        assert_eq!(only(&REGIMES), Regime::ALL);
    }
}
