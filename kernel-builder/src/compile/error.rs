//! Why a variant could not be built.
//!
//! Owns: the errors of this stage. Never: reads a log; `compiler_message` does.

use kernel_plan::steps::NvccFallback;
use miette::Diagnostic;
use thiserror::Error;

use super::compiler_message::CompilerMessage;
use crate::base::files::FileError;
use crate::base::process::ProcessError;
use crate::exit::{self, StageError};
use crate::toolchain::portable::PortableError;

/// Why a variant could not be built.
#[derive(Debug, Error, Diagnostic)]
pub enum CompileError {
    /// The compiler or linker failed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Refused(#[from] Box<CompilerMessage>),
    /// The library would not load on systems that kernels must load on.
    #[error("{variant} needs newer system libraries than manylinux_2_28 has: {}", needs.join(", "))]
    #[diagnostic(
        code(compile::too_new),
        help(
            "replace these calls with ones that glibc 2.28 and libstdc++ of GCC 8 have; otherwise the kernel \
             does not load on older systems"
        )
    )]
    TooNew {
        /// The variant.
        variant: String,
        /// The names, with the version that has them.
        needs: Vec<String>,
    },
    /// Another variant failed first.
    #[error("{variant} was not built: another variant failed")]
    #[diagnostic(code(compile::skipped), help("run without --fail-fast to build all other variants"))]
    Skipped {
        /// The variant.
        variant: String,
    },
    /// The library could not be examined.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Portable(#[from] PortableError),
    /// A CUDA source needs the nvcc of its own release.
    #[error(
        "failed to compile {unit} for {variant}: it needs the nvcc of CUDA {version}, which the wheels do \
         not contain"
    )]
    #[diagnostic(
        code(compile::no_nvcc),
        help(
            "install the CUDA {version} toolkit and set CUDA_HOME to it, or remove the flag from build.toml"
        )
    )]
    NotBySteps {
        /// The source.
        unit: String,
        /// The variant.
        variant: String,
        /// What nvcc alone does.
        #[source]
        cause: NvccFallback,
        /// The CUDA release.
        version: String,
    },
    /// Another step of the same unit failed, and says why.
    #[error("stopped, because another step of this unit failed")]
    #[diagnostic(code(compile::step_stopped))]
    Stopped,
    /// A file could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// The compiler could not be started, or the user stopped.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(#[from] ProcessError),
}

impl CompileError {
    /// The source that failed, or `link`; nothing where it is about no single one.
    pub fn unit(&self) -> Option<&str> {
        match self {
            Self::Refused(complaint) => Some(complaint.unit()),
            Self::TooNew { .. } => Some("link"),
            _ => None,
        }
    }

    /// What it says of `variant`, in words that are the same for every variant in which the same thing is wrong.
    pub fn reason(&self, variant: &str) -> String {
        match self {
            Self::Refused(complaint) => format!("{}\0{}", complaint.unit(), complaint.first_error()),
            other => other.to_string().replace(variant, ""),
        }
    }

    /// Whether it says only that something was not begun.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Skipped { .. } | Self::Process(ProcessError::Interrupted))
    }
}

impl StageError for CompileError {
    fn exit(&self) -> u8 {
        match self {
            Self::Refused(_)
            | Self::TooNew { .. }
            | Self::NotBySteps { .. }
            | Self::Stopped
            | Self::Portable(_)
            | Self::File(_)
            | Self::Skipped { .. } => exit::COMPILE,
            Self::Process(error) => error.exit(),
        }
    }
}
