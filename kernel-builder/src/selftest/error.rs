//! What can go wrong with the suite itself, and what to do about it.
//!
//! Owns: the messages and exit codes of this stage. Never: says that a kernel was caught.

use miette::Diagnostic;
use thiserror::Error;

use crate::base::causes::Cause;
use crate::exit::{self, StageError};

/// Why the suite failed, or could not be run.
#[derive(Debug, Error, Diagnostic)]
pub enum SelftestError {
    /// A name fits no fixture.
    #[error("no kernel of the suite is called `{name}`")]
    #[diagnostic(
        code(selftest::unknown_name),
        help("a part of a name is enough; `kernelwright selftest --list` prints all of them")
    )]
    UnknownName {
        /// What was asked for.
        name: String,
    },
    /// An embedded fixture cannot be read.
    #[error("tests/cheats/{folder}")]
    #[diagnostic(
        code(selftest::fixture),
        help("this is a defect of the fixture; tests/cheats/README.md says what it holds")
    )]
    Fixture {
        /// Its folder.
        folder: String,
        /// What is wrong.
        #[source]
        cause: Cause,
    },
    /// Kernels were not judged as they must be.
    #[error("the judge is wrong about {}", names.join(", "))]
    #[diagnostic(
        code(selftest::wrong_verdict),
        help("judge one of them alone with its name; tests/cheats/README.md says what each is about")
    )]
    WrongVerdict {
        /// The fixtures.
        names: Vec<String>,
    },
    /// Nothing of what was asked for could be run here.
    #[error("none of the {count} kernels was judged")]
    #[diagnostic(code(selftest::nothing_run), help("the table says what each of them needs"))]
    NothingRun {
        /// How many were asked for.
        count: usize,
    },
}

impl StageError for SelftestError {
    fn exit(&self) -> u8 {
        match self {
            Self::UnknownName { .. } => exit::USAGE,
            Self::Fixture { .. } => exit::INTERNAL,
            Self::WrongVerdict { .. } | Self::NothingRun { .. } => exit::VERIFY,
        }
    }
}
