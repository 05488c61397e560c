//! What can go wrong with a measurement, and what to do about it.
//!
//! Owns: the messages and the exit code of this stage.

use kernel_plan::spec::op::Device;
use miette::Diagnostic;
use thiserror::Error;

use crate::base::files::FileError;
use crate::base::process::ProcessError;
use crate::exit::{self, StageError};
use crate::verify::VerifyError;

/// Why there is no measurement.
#[derive(Debug, Error, Diagnostic)]
pub enum BenchError {
    /// A workload was asked for that op.toml does not measure.
    #[error("op.toml has no workload `{name}` to measure; it has: {known}")]
    #[diagnostic(
        code(bench::unknown_workload),
        help("use one of these names, or add `[workload.{name}]` with \"bench\" in `for` to op.toml")
    )]
    UnknownWorkload {
        /// The name that was asked for.
        name: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// `--drawn` finds no case.
    #[error("no case of `{op}` can be drawn for {device}: {problem}")]
    #[diagnostic(
        code(bench::nothing_drawn),
        help("measure the workloads of op.toml instead: leave out `--drawn`")
    )]
    NothingDrawn {
        /// The operation.
        op: String,
        /// The device.
        device: Device,
        /// The most frequent problem of a draft.
        problem: String,
    },
    /// Nothing that was sampled is known well enough.
    #[error("nothing was measured precisely enough: {missing}")]
    #[diagnostic(
        code(bench::not_measured),
        help(
            "a result needs 15 blocks in every start and an interval within 25%; use the defaults on an idle machine"
        )
    )]
    NotMeasured {
        /// Missing results of the first measurement.
        missing: String,
    },
    /// The kernel computed something else while it was timed.
    #[error("`{variant}` gave wrong results while it was timed, at {case}: {problem}")]
    #[diagnostic(
        code(bench::wrong_while_timed),
        help(
            "it passed verification but not here, where inputs change between calls: look for results cached by \
             pointer, work skipped after some calls, and races"
        )
    )]
    WrongWhileTimed {
        /// The variant.
        variant: String,
        /// The case.
        case: String,
        /// Which output, and how far off.
        problem: String,
    },
    /// The kernel works on a stream that the caller does not see.
    #[error("`{variant}` works outside its stream, at {case}: {problem}")]
    #[diagnostic(
        code(bench::stream_escape),
        help("launch everything on the current stream of PyTorch, or make that stream wait for the others")
    )]
    StreamEscape {
        /// The variant.
        variant: String,
        /// The case.
        case: String,
        /// Both times.
        problem: String,
    },
    /// The kernel's process claims times that this program's clock refutes.
    #[error("`{variant}` reports impossible times, at {case}: {problem}")]
    #[diagnostic(
        code(bench::clock),
        help(
            "something in the kernel's process changes its clock or timer; if the machine was busy, rerun when it is idle"
        )
    )]
    Clock {
        /// The variant.
        variant: String,
        /// The case.
        case: String,
        /// What it says, and what went by.
        problem: String,
    },
    /// The kernel took less time than its bytes or operations need on this machine.
    #[error("`{variant}` is faster than this machine can be, at {case}: {problem}")]
    #[diagnostic(
        code(bench::impossible),
        help(
            "the kernel does not do all of its work in the timed calls: look for results cached from earlier calls; \
             if the operation reads only a part of an input, make that part the input in op.toml"
        )
    )]
    Impossible {
        /// The variant.
        variant: String,
        /// The case.
        case: String,
        /// The regime, the time and the least possible one.
        problem: String,
    },
    /// The kernel slows what runs after it.
    #[error("`{variant}` leaves the machine slower than before, at {case}: {problem}")]
    #[diagnostic(
        code(bench::state),
        help(
            "look for limits and access-policy windows of the L2 cache that are set and not reset, and for threads \
             and kernels that keep running after the call"
        )
    )]
    State {
        /// The variant.
        variant: String,
        /// The case.
        case: String,
        /// Which baseline, and how much slower.
        problem: String,
    },
    /// A contender that must run raised an exception.
    #[error("`{variant}` could not be measured at {case}: {exception}")]
    #[diagnostic(
        code(bench::raised),
        help("call it once by hand with these shapes; `eager` is the function in reference.py")
    )]
    Raised {
        /// The variant.
        variant: String,
        /// The case.
        case: String,
        /// The exception's first line.
        exception: String,
    },
    /// The measuring process did not end well.
    #[error("the process of the {of} that measures `{variant}` {ending} at {case}:\n{output}")]
    #[diagnostic(
        code(bench::process),
        help(
            "measure this case alone with --workload; run verify again with --fresh to see whether it still passes"
        )
    )]
    Process {
        /// `kernel` or `baselines`.
        of: &'static str,
        /// The variant.
        variant: String,
        /// The case that was being measured.
        case: String,
        /// How it ended.
        ending: String,
        /// What it printed last on standard error.
        output: String,
    },
    /// The process could not be started, or ctrl-C.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Start(#[from] ProcessError),
    /// A device candidate could not be judged while it was measured; not its fault.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Judge(#[from] VerifyError),
    /// The harness could not be written to a temporary folder.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
}

impl BenchError {
    /// Whether the kernel is at fault, so that none of its figures of this run count.
    pub fn refuses(&self) -> bool {
        match self {
            Self::WrongWhileTimed { .. }
            | Self::StreamEscape { .. }
            | Self::Clock { .. }
            | Self::Impossible { .. }
            | Self::State { .. }
            | Self::Raised { .. } => true,
            Self::Process { of, .. } => *of != "baselines",
            Self::NotMeasured { .. }
            | Self::UnknownWorkload { .. }
            | Self::NothingDrawn { .. }
            | Self::Start(_)
            | Self::Judge(_)
            | Self::File(_) => false,
        }
    }
}

impl StageError for BenchError {
    fn exit(&self) -> u8 {
        match self {
            Self::Start(ProcessError::Interrupted) => exit::INTERRUPTED,
            Self::File(error) => error.exit(),
            Self::Judge(error) => error.exit(),
            _ => exit::BENCH,
        }
    }
}
