//! Why nothing can be linked for older systems, and what to do about it.
//!
//! Owns: the messages of this part of the toolchain stage.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::base::files::FileError;
use crate::base::process::{Ending, ProcessError};

/// What is wrong with this machine's libraries or with a library that was linked.
#[derive(Debug, Error, Diagnostic)]
pub enum PortableError {
    /// The compiler does not know where a library or start file is.
    #[error("the C++ compiler `{}` has no file `{name}`", compiler.display())]
    #[diagnostic(
        code(toolchain::portable),
        help(
            "install the development files of the C++ compiler: `build-essential` on Debian and Ubuntu, `gcc-c++ \
             libstdc++-static` on Fedora and RHEL; a system without glibc cannot build kernels for others"
        )
    )]
    Missing {
        /// What was looked for, e.g. `libstdc++.a`.
        name: &'static str,
        /// The compiler that was asked.
        compiler: PathBuf,
    },
    /// A stand-in or the shim could not be made.
    #[error("failed to make {what} for older systems: `{}` {ending}\n{output}", program.display())]
    #[diagnostic(
        code(toolchain::portable),
        help("the compiler, assembler or archiver printed this; try another compiler with CXX=g++-12")
    )]
    Tool {
        /// What was being made.
        what: String,
        /// The program.
        program: PathBuf,
        /// How it ended.
        ending: Ending,
        /// Its output.
        output: String,
    },
    /// A library is not what the linker would take.
    #[error("failed to read the symbols of `{}`", path.display())]
    #[diagnostic(
        code(toolchain::portable),
        help("a shared library for 64-bit x86 or Arm is expected; reinstall the package that it belongs to")
    )]
    NotElf {
        /// The library.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        cause: object::Error,
    },
    /// A file of the system or of the cache.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// A program that could not be started.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(#[from] ProcessError),
}
