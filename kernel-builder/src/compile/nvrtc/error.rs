//! What can go wrong when device code is compiled.
//!
//! Owns: the codes and the words. Never: decides whose fault a rejected source is.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::base::files::FileError;
use crate::base::process::ProcessError;

/// Device code that is not machine code now.
#[derive(Debug, Error, Diagnostic)]
pub enum NvrtcError {
    /// The compiler does not take the source.
    #[error("`{name}` does not compile as device code: {}", first(log, status))]
    #[diagnostic(code(compile::device_code), help("{log}"))]
    Rejected {
        /// The source.
        name: String,
        /// What failed, in the compiler's words.
        status: String,
        /// Its errors with places.
        log: String,
    },
    /// The compiler's process ended.
    #[error("the compiler {ending} while it compiled `{name}`")]
    #[diagnostic(
        code(compile::device_compiler),
        help("the source crashes the compiler; reduce it to a small example and report that to NVIDIA")
    )]
    Crashed {
        /// The source.
        name: String,
        /// How it ended.
        ending: String,
    },
    /// The compiler's process answers something else than was asked.
    #[error("failed to read the output of the compiler for `{name}`")]
    #[diagnostic(
        code(compile::device_compiler),
        help(
            "the source makes the compiler print invalid output; reduce it to a small example and report \
             that to NVIDIA"
        )
    )]
    Garbled {
        /// The source or the library.
        name: String,
        /// What is wrong with the answer.
        #[source]
        cause: serde_json::Error,
    },
    /// The compiler does not end.
    #[error("the compiler did not finish `{name}` within {seconds} s")]
    #[diagnostic(
        code(compile::device_compiler),
        help(
            "the usual causes are templates that recurse without end, and loops that are unrolled without end"
        )
    )]
    Endless {
        /// The source.
        name: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The library does not load.
    #[error("failed to load NVRTC from `{}`: {problem}", library.display())]
    #[diagnostic(
        code(compile::device_library),
        help("set CUDA_HOME to a complete toolkit, or unset it to use the library of a wheel")
    )]
    Library {
        /// The file.
        library: PathBuf,
        /// What the loader said to its process.
        problem: String,
    },
    /// The compiler's process cannot be started or confined.
    #[error("failed to start the compiler `{}`: {problem}", compiler.display())]
    #[diagnostic(
        code(compile::device_start),
        help(
            "the cause is this machine, not the source: check that the compiler is installed and can be run"
        )
    )]
    NotStarted {
        /// The program or library.
        compiler: PathBuf,
        /// The message of the operating system, from the process that was to become it.
        problem: String,
    },
    /// A file.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// A process that cannot be started, or ctrl-C.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(#[from] ProcessError),
}

impl NvrtcError {
    /// Whether the compiler cannot be loaded, started or confined: the source was not judged.
    pub(crate) fn is_of_machine(&self) -> bool {
        matches!(self, Self::Library { .. } | Self::NotStarted { .. })
    }
}

/// The first error of a log; what failed where there is none.
fn first<'a>(log: &'a str, status: &'a str) -> &'a str {
    log.lines().find(|line| line.contains("error")).unwrap_or(status)
}
