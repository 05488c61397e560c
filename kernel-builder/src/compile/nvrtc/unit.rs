//! What is compiled to machine code, by which program, and what comes of it.
//!
//! Owns: these types. Never: compiles.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;

/// How long one text may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of address space that a compiler's process may have.
pub(super) const MEMORY: u64 = 4 << 30;

/// The device code of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Its text.
    pub text: String,
    /// What errors call it: its path in the project.
    pub name: String,
    /// Folders that are searched for headers.
    pub include: Vec<PathBuf>,
    /// The candidate's folder: what its code may read beside the toolkit. Absent for code without files.
    pub root: Option<PathBuf>,
}

/// What a compiler makes of device code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// Machine code of an architecture.
    Cubin,
    /// PTX, which drivers compile for this architecture and all later ones.
    Ptx,
}

impl Form {
    /// An architecture as compilers name it: `sm_90a`, `compute_90`.
    pub(super) fn architecture(self, arch: &str) -> String {
        match self {
            Self::Cubin => format!("sm_{arch}"),
            Self::Ptx => format!("compute_{arch}"),
        }
    }
}

/// What is to be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The text, what errors call it, and the folders that it may read.
    pub source: Source,
    /// Macros.
    pub defines: Vec<(String, String)>,
    /// The architecture, e.g. `90a`.
    pub arch: String,
    /// What is made for it.
    pub form: Form,
    /// The kernels, as C++ names them: `norm<__nv_bfloat16, 256>`.
    pub expressions: Vec<String>,
}

/// Machine code, or PTX.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cubin {
    /// Where it lies.
    pub path: PathBuf,
    /// The digest of all that it was made of.
    pub digest: Digest,
    /// The mangled names of the kernels, in the order of the unit's expressions.
    pub names: Vec<String>,
    /// The compiler's warnings.
    pub log: String,
    /// How long the compiler took; nothing where the cache had it.
    pub seconds: Option<f64>,
}

/// Which program compiles device code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Tool {
    /// NVIDIA's compiler as a library: takes milliseconds, and needs no C++ compiler
    #[default]
    Nvrtc,
    /// NVIDIA's compiler driver: device code can include the headers of the system's C++ compiler
    Nvcc,
}

impl Tool {
    /// What records and messages call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nvrtc => "nvrtc",
            Self::Nvcc => "nvcc",
        }
    }

    /// Options of every compilation.
    pub(crate) fn options(self) -> [&'static str; 2] {
        match self {
            Self::Nvrtc => ["--std=c++17", "--generate-line-info"],
            Self::Nvcc => ["-std=c++17", "-lineinfo"],
        }
    }
}
