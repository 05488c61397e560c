//! Why a build script fails.
//!
//! Owns: the words. Never: decides.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Kernels that were not built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A variable that cargo sets for build scripts.
    #[error("{variable} is not set: call kernelwright_build from a build script, which cargo runs")]
    NotABuildScript {
        /// The variable.
        variable: &'static str,
    },
    /// A manifest that cannot be parsed.
    #[error("{}:{line}: {message}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong, and what to write.
        message: String,
    },
    /// No settings, and no kernel at the place where one is looked for.
    #[error(
        "{}: no [package.metadata.kernelwright], and no op.toml in the same folder; add the section with \
         kernels = [\"kernels/rms-norm\"], a list of folders with an op.toml",
        path.display()
    )]
    NoSettings {
        /// Cargo.toml.
        path: PathBuf,
    },
    /// No workspace to inherit from.
    #[error("{}:{line}: `{key}` is inherited, but no Cargo.toml above has a [workspace]", path.display())]
    NoWorkspace {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The key.
        key: String,
    },
    /// A file or folder.
    #[error("failed to {action} {}: {cause}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// No program.
    #[error(
        "the program `kernelwright` was not found (looked in {looked}); install it as described in \
         the README of https://github.com/kernelwright/kernelwright, set KERNELWRIGHT_PROGRAM to its path, \
         or set KERNELWRIGHT_STUBS=1 to build without kernels"
    )]
    NoProgram {
        /// Where it was looked for.
        looked: String,
    },
    /// A build without kernels has nothing to make the functions from.
    #[error(
        "a build without kernels needs the program `kernelwright`, or the generated functions in the package: run `kernelwright \
         embed --stubs --out-dir stubs {kernels}`, commit the folder, and add stubs = \"stubs\" to [package.metadata.kernelwright]"
    )]
    NoStubs {
        /// The folders of the kernels.
        kernels: String,
    },
    /// The program cannot be started.
    #[error("failed to start `{}`: {cause}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The program does not know the command.
    #[error(
        "`{}` cannot build kernels for Rust ({output}); update it, or set KERNELWRIGHT_PROGRAM to another \
         one",
        program.display()
    )]
    OtherProgram {
        /// The program.
        program: PathBuf,
        /// The end of what it printed.
        output: String,
    },
    /// What the program found wrong, with files and lines.
    #[error("{}", problems.join("\n"))]
    Kernels {
        /// One text for each problem.
        problems: Vec<String>,
    },
}
