//! What compile makes: one importable package a variant.
//!
//! Owns: the artifact's shape on disk and in memory.
//! Never: says whether the kernel is right; that is `Verified<Artifact>`, which only `verify` makes.

use std::path::PathBuf;

use serde::Serialize;

use crate::base::digest::Digest;

/// One built variant: a folder that Python can import as a package.
#[derive(Debug, Clone, Serialize)]
pub struct Artifact {
    /// The variant's name, e.g. `torch-stable-abi211-cpu-x86_64-linux`.
    pub variant: String,
    /// The backend: `cpu`, `cuda`.
    pub backend: String,
    /// Where the package lies: `.kernelwright/artifacts/<variant>` of the project.
    pub dir: PathBuf,
    /// The unique name of the extension module and operator namespace, `_<module>_<backend>_<digest>`.
    pub id: String,
    /// The shared library inside `dir`; absent for a variant of Python only.
    pub library: Option<PathBuf>,
    /// CUDA capabilities that build.toml declares, as written (`9.0a`, `12.0+PTX`); empty for cpu.
    pub capabilities: Vec<String>,
    /// Digest over the names and bytes of every file in `dir`.
    pub digest: Digest,
}
