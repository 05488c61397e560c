//! What is asked of the judge on behalf of an agent, in words that a test can answer, too.
//!
//! Owns: these questions and answers. Never: asks or answers one.

use std::path::Path;

use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;

use crate::agent::kernel::ProposedKernel;
use crate::agent::tuned::Settings;
use crate::bench::ncu::{Counters, NoCounters};
use crate::bench::screen::ScreenResult;
use crate::device::gpu::NoDevice;
use crate::device::wire::DeviceProperties;
use crate::exit::Failure;
use crate::verify::CheckResult;
use crate::verify::checks::resources::Usage;
use crate::verify::lab::{Attempt, CandidateRefusal};

/// A candidate with the tunables of every call.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    /// Its code and how it is started.
    pub(crate) proposed: ProposedKernel,
    /// Its tunables.
    pub(crate) settings: Settings,
}

/// What came of an attempt.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    /// It compiles. Nothing of it was run: there is no GPU.
    Compiled {
        /// What its kernels use, by architecture.
        used: Vec<(String, Usage)>,
        /// Why it was not judged.
        missing: NoDevice,
    },
    /// Right, with its time.
    Right(ScreenResult),
    /// Wrong, or it does not compile.
    Refused(CandidateRefusal),
}

/// Seconds a call of the best and of the candidate, a round each, taken one after the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rounds {
    /// The best.
    pub(crate) best: Vec<f64>,
    /// The candidate.
    pub(crate) candidate: Vec<f64>,
}

/// How thoroughly two candidates are compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Starts of the processes.
    pub(crate) starts: usize,
    /// Rounds in each start.
    pub(crate) rounds: usize,
    /// Samples of either side in a round.
    pub(crate) samples: usize,
}

/// Judges candidates.
pub(crate) trait Judge {
    /// The GPU, or why there is none.
    ///
    /// # Errors
    /// ctrl-C.
    fn device(&mut self) -> Result<Result<DeviceProperties, NoDevice>, Failure>;

    /// Compiles a candidate, compares and times it on one case.
    ///
    /// # Errors
    /// The judge itself fails.
    fn attempt(
        &mut self,
        proposed: &ProposedKernel,
        tuning: &Tuning,
        case: &Case,
    ) -> Result<Verdict, Failure>;

    /// Times the best and a candidate in turn.
    ///
    /// # Errors
    /// As [`Self::attempt`]; what is wrong with either is the inner error.
    fn rounds(
        &mut self,
        best: &Contender,
        candidate: &Contender,
        case: &Case,
        effort: Effort,
    ) -> Result<Attempt<Vec<Rounds>>, Failure>;

    /// Searches `[tune]` of the candidate that is kept in a folder.
    ///
    /// # Errors
    /// As [`Self::attempt`].
    fn tune(&mut self, proposed: &ProposedKernel, kept: &Path) -> Result<Settings, Failure>;

    /// Verifies a candidate in full, with fresh values and held-out workloads.
    ///
    /// # Errors
    /// As [`Self::attempt`]; the inner error is the check that refuses it.
    fn verify(&mut self, contender: &Contender) -> Result<Result<(), CheckResult>, Failure>;

    /// Whether two candidates are the same machine code, started in the same way.
    ///
    /// # Errors
    /// As [`Self::attempt`].
    fn same_code(
        &mut self,
        one: &ProposedKernel,
        other: &ProposedKernel,
        tuning: &Tuning,
        case: &Case,
    ) -> Result<bool, Failure>;

    /// Hardware counters of one call of a candidate, or why they cannot be read.
    ///
    /// # Errors
    /// As [`Self::attempt`].
    fn counters(
        &mut self,
        proposed: &ProposedKernel,
        tuning: &Tuning,
        case: &Case,
    ) -> Result<Result<Vec<Counters>, NoCounters>, Failure>;

    /// Lets go of the GPU until it is needed again.
    fn rest(&mut self);
}
