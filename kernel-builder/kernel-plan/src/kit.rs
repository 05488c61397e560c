//! The tools of a build as plain values: where each lies and which version it is.
//!
//! Owns: the shape. Never: finds or checks anything.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything that the commands of one variant need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchain {
    /// The C++ compiler.
    pub cxx: Compiler,
    /// The CUDA toolkit, where the variant needs one.
    pub cuda: Option<CudaKit>,
    /// PyTorch's headers and libraries.
    pub torch: TorchKit,
    /// The folder that holds `registration.h`.
    pub extension_include: PathBuf,
}

/// A host compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiler {
    /// The executable.
    pub program: PathBuf,
    /// First line of its `--version`.
    pub version: String,
    /// What identifies it in cache keys.
    pub id: String,
}

/// A CUDA toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaKit {
    /// `13.0`.
    pub version: String,
    /// The compiler driver.
    pub nvcc: PathBuf,
    /// The toolkit's folder.
    pub root: PathBuf,
    /// Header folders.
    pub include: Vec<PathBuf>,
    /// The runtime library to link, e.g. `libcudart.so.13`.
    pub cudart: PathBuf,
    /// What identifies it in cache keys.
    pub id: String,
}

/// PyTorch as far as a build needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TorchKit {
    /// `2.11.0`.
    pub version: String,
    /// Header folders.
    pub include: Vec<PathBuf>,
    /// A folder of empty libraries that carry torch's library names, to link against.
    pub stubs: PathBuf,
    /// What identifies it in cache keys.
    pub id: String,
}
