//! What stops a measurement.
//!
//! Owns: the errors of this stage. Never: carries numbers of a measurement that failed.

use miette::Diagnostic;
use thiserror::Error;

use crate::base::files::FileError;
use crate::base::process::ProcessError;
use crate::exit::{self, StageError};
use crate::verify::VerifyError;

/// The kernel could not be measured.
#[derive(Debug, Error, Diagnostic)]
pub enum BenchError {
    /// A process could not be started, or the user stopped it.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(#[from] ProcessError),
    /// A file could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// The inputs or the expected results could not be made.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Oracle(VerifyError),
    /// op.toml names nothing to measure here.
    #[error("op.toml has no workload to measure on `{device}`")]
    #[diagnostic(
        code(bench::no_workload),
        help("add a [workload.NAME] with `for` holding \"bench\" and `devices` holding \"{device}\"")
    )]
    NoWorkload {
        /// `cpu` or `cuda`.
        device: String,
    },
    /// The machine lacks the device.
    #[error("`{variant}` cannot be measured here: {reason}")]
    #[diagnostic(code(bench::no_device), help("run `kernelwright bench` on a machine that has the device"))]
    NoDevice {
        /// The variant.
        variant: String,
        /// What is missing.
        reason: String,
    },
    /// The process that times did not reach its end.
    #[error("the measuring process {ending} during the workload `{workload}`: {said}")]
    #[diagnostic(
        code(bench::process),
        help("the kernel passed its checks but not the measurement; run `kernelwright verify` again")
    )]
    Ended {
        /// How it ended.
        ending: String,
        /// The case that was being timed.
        workload: String,
        /// The end of its error output.
        said: String,
    },
    /// A call that was timed gave a wrong result.
    #[error("a timed call of the workload `{workload}` gave a wrong result: {reason}")]
    #[diagnostic(
        code(bench::wrong_while_timed),
        help("the kernel computes something else when it is called often; it is not measured, and must not be published")
    )]
    WrongWhileTimed {
        /// The case.
        workload: String,
        /// The element and its values.
        reason: String,
    },
    /// The candidate itself did not run.
    #[error("the kernel raised on the workload `{workload}`: {reason}")]
    #[diagnostic(code(bench::raised), help("the kernel passed its checks on other workloads; add this one to verify"))]
    Raised {
        /// The case.
        workload: String,
        /// What Python said.
        reason: String,
    },
}

impl From<VerifyError> for BenchError {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Process(error) => Self::Process(error),
            VerifyError::File(error) => Self::File(error),
            other => Self::Oracle(other),
        }
    }
}

impl StageError for BenchError {
    fn exit(&self) -> u8 {
        match self {
            Self::Process(error) => error.exit(),
            Self::File(error) => error.exit(),
            _ => exit::BENCH,
        }
    }
}
