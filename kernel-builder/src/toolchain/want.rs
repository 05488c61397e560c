//! What a build needs of a toolchain.
//!
//! Owns: the words for it. Never: finds anything.

use kernel_plan::variant::Toolkit;

/// Where compilers and headers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// PyPI wheels, kept in the cache; the C++ compiler is the system's.
    #[default]
    Wheels,
    /// This machine: nvcc from CUDA_HOME or PATH, PyTorch of the active Python.
    System,
}

/// What a build needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolchainRequest {
    /// Where from.
    pub provider: Provider,
    /// What the code plugs into.
    pub framework: FrameworkRelease,
    /// The CUDA version, `MAJOR.MINOR`, e.g. `13.0`; absent when no CUDA variant is built.
    pub cuda: Option<String>,
    /// The toolkit of a variant for rocm, xpu or metal, which is always an installed one.
    pub device: Option<Toolkit>,
}

/// What code plugs into, with its release line, `MAJOR.MINOR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameworkRelease {
    /// PyTorch, e.g. `2.11`.
    Torch(String),
    /// Apache TVM's foreign function interface, e.g. `0.1`.
    TvmFfi(String),
}

/// What the Python runtime must import beside torch and numpy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// The `kernels` client.
    pub client: bool,
    /// Apache TVM's foreign function interface.
    pub tvm_ffi: bool,
}
