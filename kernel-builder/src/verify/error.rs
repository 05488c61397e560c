//! What stops a judgement without a verdict.
//!
//! Owns: the errors of this stage. Never: describes a refusal; that is evidence.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::base::causes::Cause;
use crate::base::files::FileError;
use crate::base::process::ProcessError;
use crate::compile::nvrtc::NvrtcError;
use crate::exit::{self, StageError};

/// The judgement could not be made.
#[derive(Debug, Error, Diagnostic)]
pub enum VerifyError {
    /// A process could not be started, or the user stopped it.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(#[from] ProcessError),
    /// A file could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// The project's own reference does not run, so there is nothing to compare with.
    #[error("the reference fails {when}: {exception}")]
    #[diagnostic(
        code(verify::reference),
        help(
            "run the function of `[reference]` in op.toml on float64 tensors and fix it; exclude lengths that the \
             operation does not support with `min`, `max` and `multiple-of` of an axis, or with `constraints`"
        )
    )]
    Reference {
        /// With which workload, or before any.
        when: String,
        /// The exception.
        exception: String,
    },
    /// The compiler of device code does not load.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Compiler(NvrtcError),
    /// The process that compares on the device failed.
    #[error("the process that judges on the GPU failed")]
    #[diagnostic(
        code(verify::judge),
        help(
            "a candidate cannot cause this: check whether other processes use the GPU's memory (nvidia-smi), and retry"
        )
    )]
    Judge {
        /// What the driver said, or how the process ended.
        #[source]
        cause: Cause,
    },
    /// The harness itself failed.
    #[error("the {role} process {ending} before it was done{}", shown(output))]
    #[diagnostic(
        code(verify::harness),
        help("this is not the kernel's fault: check the Python environment with `kernelwright doctor`")
    )]
    Harness {
        /// `oracle`.
        role: &'static str,
        /// How it ended.
        ending: String,
        /// The end of its error output.
        output: String,
    },
    /// The disk, or memory limits, are too small for the data of the workloads.
    #[error("the workloads need {needed} of scratch space in `{folder}`, but only {free} are free")]
    #[diagnostic(code(verify::scratch), help("free some space, or set TMPDIR to a larger disk"))]
    Scratch {
        /// For people.
        needed: String,
        /// The folder.
        folder: String,
        /// For people.
        free: String,
    },
    /// The disk became full while the kernel was called.
    #[error("no space left in `{}` for the results of the kernel", .folder.display())]
    #[diagnostic(code(verify::scratch), help("free some space, or set TMPDIR to a larger disk"))]
    DiskFull {
        /// The folder.
        folder: PathBuf,
    },
}

fn shown(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!(": {output}") }
}

impl StageError for VerifyError {
    fn exit(&self) -> u8 {
        match self {
            Self::Process(error) => error.exit(),
            Self::File(error) => error.exit(),
            // The machine's fault: the kernel was not judged.
            Self::Compiler(error) if error.is_of_machine() => exit::TOOLCHAIN,
            _ => exit::VERIFY,
        }
    }
}
