//! What is timed, as the rounds see it: a process that holds contenders and answers for one block at a time.
//!
//! Owns: the words between the rounds and whoever times: cases, regimes, blocks, what can go wrong.
//! Never: says how a block is made; Python and the CUDA driver are behind [`Timer`].

use std::path::PathBuf;

use kernel_plan::spec::op::Case;

use super::cupti::Cupti;
use super::skip::SkipReason;
use crate::base::files::FileError;
use crate::base::process::ProcessError;
pub(super) use crate::protocol::bench::{Aim, Edits, LeftOut, Need, Prepared, Regime, Sizes};

/// What one block is to be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask<'a> {
    /// Whom to call. A block of nobody, or without calls, shows what the clocks cost, and what is done beside them.
    pub(super) contender: Option<&'a str>,
    pub(super) regime: Regime,
    /// Calls that are timed.
    pub(super) calls: u64,
    /// The input set of the first of them; the others follow, wrapping round.
    pub(super) first: u64,
    /// Decides the contents of the sets. A timer learns it when the block begins.
    pub(super) contents: u64,
    /// Before the call at the first number, the edit of the second number is done to its set; not timed.
    pub(super) edits: &'a [(u64, u64)],
    /// What the block is for.
    pub(super) aim: Aim,
}

/// What one block took.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block {
    /// Seconds of all timed calls by the device's events; on a processor by the process's own clock.
    pub(super) device: f64,
    /// Seconds from the word to begin until the device was idle, by the process's own clock.
    pub(super) inside: f64,
    /// Seconds from the word to begin until the answer was heard, by this program's clock.
    pub(super) outside: f64,
    /// Calls whose outputs are kept; all where it is absent.
    pub(super) kept: Option<Vec<u64>>,
}

impl Need {
    /// Why there is no room, if there is none.
    pub(super) fn unmet(&self) -> Option<SkipReason> {
        let free = self.free?;
        (self.needs > free - free / 10).then_some(SkipReason::NoRoom { needs: self.needs, free })
    }
}

impl Prepared {
    /// The sizes of a regime's blocks.
    pub(super) fn sizes(&self, regime: Regime) -> Option<&Sizes> {
        self.regimes.iter().find(|sizes| sizes.regime == regime)
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// What was called raised an exception.
    Raised(String),
    /// The process has ended, hangs or says what is no answer: how, and what it wrote last.
    Gone { ending: String, output: String },
    /// It could not be started, or ctrl-C.
    Process(ProcessError),
}

impl From<ProcessError> for Fault {
    fn from(error: ProcessError) -> Self {
        Self::Process(error)
    }
}

/// Contenders in one process, asked by one caller; between answers nothing of it runs.
pub(super) trait Timer {
    /// Takes a case, and says what it needs. Starts the process where there is none.
    fn begin(&mut self, case: &Case) -> Result<Need, Fault>;
    /// Makes and warms the contenders of the case. The seed decides the values that contents are cut from.
    fn prepare(&mut self, seed: u64) -> Result<Prepared, Fault>;
    /// One block.
    fn block(&mut self, ask: &Ask<'_>) -> Result<Block, Fault>;
    /// Calls of the last block that left nothing but what lay in their outputs before, on a GPU. It is asked of every
    /// sample, outside of its time; whether such a call is wrong, the reference says.
    fn suspects(&mut self) -> Result<Vec<u64>, Fault>;
    /// Leaves inputs and outputs of these calls of the last block in these files; what is wrong with their form, if
    /// anything, and then there may be no file.
    fn give(&mut self, places: &[u64], files: &[PathBuf]) -> Result<Option<String>, Fault>;
    /// Forgets the case and what it held.
    fn leave(&mut self) -> Result<(), Fault>;
    /// Ends the process.
    fn stop(&mut self);
    /// Ends the process, and gives the next one files of its own: nothing that this one wrote reaches it.
    ///
    /// # Errors
    /// The files cannot be written.
    fn renew(&mut self) -> Result<(), FileError>;
    /// Seconds of processors that the process has used since it started, where the system tells.
    fn processor_seconds(&self) -> Option<f64>;
}

/// A process of the candidate that is never timed: a tracer slows what it has looked at.
pub(super) trait CallTracer {
    /// What the device does for some calls. Starts the process where there is none.
    fn trace(&mut self, case: &Case, seed: u64) -> Result<Cupti, Fault>;
}

/// A timed call whose outputs lie in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimedCall {
    pub(super) file: PathBuf,
    pub(super) contents: u64,
    /// The number of its contents: that of its set, but where every call has contents of its own.
    pub(super) number: u64,
    pub(super) edits: Edits,
}

/// The process of the baselines, which has the reference and never sees a candidate.
pub(super) trait Referee: Timer {
    /// What is wrong with the outputs of these calls, if anything.
    fn judge(&mut self, calls: &[TimedCall]) -> Result<Option<String>, Fault>;
}
