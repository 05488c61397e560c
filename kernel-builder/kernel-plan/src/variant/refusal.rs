//! Why a row is not for a project.
//!
//! Owns: the reasons, and their words. Never: finds one; `select` does.

use std::fmt;

use crate::units::{BackendId, VariantId, Version};

/// Why a row is not for a project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// `general.backends` does not list the row's backend.
    Undeclared(BackendId),
    /// The row plugs into something else than the project; what the project has, and what the row is for.
    Framework(&'static str, &'static str),
    /// No `[kernel.NAME]` is for the row's backend; a project with `[torch]` is Python alone there.
    NoKernel(BackendId),
    /// The row is for Python alone, and the project compiles code for its backend.
    HasKernel(BackendId),
    /// The project uses the stable ABI for this backend, whose builds serve the row's users.
    WantsStable(BackendId),
    /// The project does not use the stable ABI for this backend.
    WantsFull(BackendId),
    /// The row's torch is older than `torch.stable-abi` asks for.
    BelowFloor(Version),
    /// `torch.minver` or `torch.maxver` excludes the row.
    TorchRange(Version),
    /// `[general.cuda]` excludes the row.
    CudaRange(Version),
    /// `cuda-minver` leaves out every kernel of the project below this CUDA.
    CudaMinver(Version),
    /// Another row's build loads wherever this one would, and holds the same.
    Covered(VariantId),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undeclared(backend) => write!(f, "`general.backends` does not list {backend}"),
            Self::Framework(section, row) => {
                write!(f, "the project has {section}, but this variant is for {row}")
            }
            Self::NoKernel(backend) => {
                write!(f, "no [kernel.NAME] is for {backend}")
            }
            Self::HasKernel(backend) => write!(f, "a [kernel.NAME] is compiled for {backend}"),
            Self::WantsStable(backend) => {
                write!(
                    f,
                    "`torch.stable-abi` covers {backend}: its stable builds serve every torch (needs --all)"
                )
            }
            Self::WantsFull(backend) => write!(f, "`torch.stable-abi` does not cover {backend}"),
            Self::BelowFloor(floor) => write!(f, "`torch.stable-abi` requires torch {floor} or later"),
            Self::TorchRange(version) => {
                write!(f, "`torch.minver` or `torch.maxver` excludes torch {version}")
            }
            Self::CudaRange(version) => write!(f, "[general.cuda] excludes CUDA {version}"),
            Self::CudaMinver(least) => {
                write!(f, "`cuda-minver` of every kernel requires CUDA {least} or later")
            }
            Self::Covered(id) => write!(f, "{id} loads there too, with the same code (needs --all)"),
        }
    }
}
