//! Compilers, CUDA, torch headers and the Python that judges: from wheels, from the system.
//!
//! Owns: finding, fetching and checking them. Never: compiles.

use std::path::PathBuf;

use kernel_plan::plan::CommandLine;

/// A Python interpreter with a torch that imports: the active one, or the managed one.
#[derive(Debug, Clone)]
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
