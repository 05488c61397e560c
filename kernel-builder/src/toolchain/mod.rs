//! Compilers, CUDA, torch headers and the Python that judges: from wheels, from the system.
//!
//! Owns: finding, fetching and checking them. Never: compiles a kernel, changes a Python of the user's.

mod doctor;
mod error;
pub mod portable;
pub mod python;

use std::path::PathBuf;

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::CommandLine;

pub use doctor::{Finding, Health, examine, table};
pub use error::ToolchainError;

use crate::base::session::Session;

/// Where compilers and headers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// From wheels of the package index, into the cache; the C++ compiler is the system's.
    #[default]
    Wheels,
    /// What is installed: nvcc of CUDA_HOME or PATH, torch of the active Python.
    System,
}

/// What a build needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// Where from.
    pub provider: Provider,
    /// The PyTorch release line, `MAJOR.MINOR`, e.g. `2.11`.
    pub torch: String,
    /// The CUDA version, `MAJOR.MINOR`, e.g. `13.0`; absent when no CUDA variant is built.
    pub cuda: Option<String>,
}

/// What the Python runtime must import beside torch and numpy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// The `kernels` client.
    pub client: bool,
}

/// Finds or fetches everything that compiling needs; only looks at a few files when nothing changed since last time.
pub fn resolve(session: &Session, want: &Want) -> Result<Toolchain, ToolchainError> {
    let _ = (session, want);
    Err(ToolchainError::Interrupted)
}

/// A Python interpreter with a torch that imports: the active one, or the managed one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PythonRuntime {
    /// The interpreter.
    pub program: PathBuf,
    /// The managed site-packages folder; absent when the interpreter's own packages are used.
    pub site: Option<PathBuf>,
    /// `torch.__version__`, e.g. `2.11.0+cu130`.
    pub torch: String,
}

impl PythonRuntime {
    /// A command line `python -I [-S] ...`; with a managed site the child must call `site.addsitedir` on the
    /// folder in `KERNELWRIGHT_SITE` first (the harness does).
    pub fn command(&self) -> CommandLine {
        let line = CommandLine::new(&self.program).arg("-I");
        match &self.site {
            Some(site) => line.arg("-S").env("KERNELWRIGHT_SITE", site.display().to_string()),
            None => line,
        }
    }
}
