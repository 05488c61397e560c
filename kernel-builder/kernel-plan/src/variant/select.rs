//! Chooses the rows that a project is built for.
//!
//! Owns: the choice, and the reason for every row in words.
//! Never: looks at what this machine has installed.

use std::fmt;

use crate::diagnostic::Problem;
use crate::spec::BuildSpec;
use crate::units::{BackendId, Version};

use super::{Abi, Cpu, Matrix, Row, Toolkit, Variant, codes};

/// One row with what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The row's variant.
    pub variant: Variant,
    /// Absent: the row is chosen. Present: why it is not.
    pub refusal: Option<Refusal>,
}

/// Why a row is not for a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// `[torch-noarch]`: nothing is compiled.
    Noarch,
    /// The row is for another processor than this one.
    OtherCpu(Cpu),
    /// `general.backends` does not list the row's backend.
    Undeclared(BackendId),
    /// No `[kernel.NAME]` is for the row's backend.
    NoKernel(BackendId),
    /// `torch.minver` or `torch.maxver` excludes the row.
    TorchRange(Version),
    /// `general.cuda` excludes the row.
    CudaRange(Version),
    /// The project uses the stable ABI for this backend.
    WantsStable(BackendId),
    /// The project does not use the stable ABI for this backend.
    WantsFull(BackendId),
    /// The row's torch is older than `torch.stable-abi` asks for.
    BelowFloor(Version),
    /// Another row is for an older torch, and its build loads on this one too.
    Covered(Version),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noarch => f.write_str("[torch-noarch] compiles nothing"),
            Self::OtherCpu(cpu) => write!(f, "it is for {cpu}, and this is another processor"),
            Self::Undeclared(backend) => write!(f, "`general.backends` does not list {backend}"),
            Self::NoKernel(backend) => write!(f, "no [kernel.NAME] is for {backend}"),
            Self::TorchRange(version) => {
                write!(f, "`torch.minver` or `torch.maxver` excludes torch {version}")
            }
            Self::CudaRange(version) => write!(f, "[general.cuda] excludes CUDA {version}"),
            Self::WantsStable(backend) => write!(f, "`torch.stable-abi` covers {backend}"),
            Self::WantsFull(backend) => write!(f, "`torch.stable-abi` does not cover {backend}"),
            Self::BelowFloor(floor) => write!(f, "`torch.stable-abi` asks for torch {floor} or later"),
            Self::Covered(version) => write!(f, "the build for torch {version} loads here too"),
        }
    }
}

/// The rows of `matrix` that `spec` is built for on a machine with processor `host`, in file order.
///
/// # Errors
/// No row is right; the problem lists why each is not.
pub fn select(spec: &BuildSpec, matrix: &Matrix, host: Cpu) -> Result<Vec<Variant>, Problem> {
    let explained = explain(spec, matrix, host);
    let chosen: Vec<_> =
        explained.iter().filter(|row| row.refusal.is_none()).map(|row| row.variant).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let reasons = explained
        .iter()
        .filter_map(|row| Some(format!("{}: {}", row.variant.id(), row.refusal.as_ref()?)))
        .collect::<Vec<_>>()
        .join("\n");
    Err(Problem::error(
        codes::NOTHING_SELECTED,
        format!("no variant is right for `{}`", spec.general.name.value),
    )
    .at(&spec.file, &spec.general.backends.span, "the backends that it is for")
    .help(format!("why not, row by row:\n{reasons}")))
}

/// What is decided about every row of `matrix`, in file order.
pub fn explain(spec: &BuildSpec, matrix: &Matrix, host: Cpu) -> Vec<Explained> {
    let rows = matrix.rows.iter();
    rows.map(|row| Explained {
        variant: row.variant.value,
        refusal: refuse(spec, &matrix.rows, &row.variant, host),
    })
    .collect()
}

fn refuse(spec: &BuildSpec, rows: &[Row], variant: &Variant, host: Cpu) -> Option<Refusal> {
    if let Some(refusal) = refuse_alone(spec, variant, host) {
        return Some(refusal);
    }
    // Of several stable rows that differ in torch alone, the oldest serves every torch of the others.
    let older = rows.iter().map(|row| &row.variant.value).filter(|other| {
        variant.framework.abi == Abi::Stable
            && other.framework.abi == Abi::Stable
            && other.framework.version < variant.framework.version
            && (other.backend, other.cpu, other.os) == (variant.backend, variant.cpu, variant.os)
            && refuse_alone(spec, other, host).is_none()
    });
    older.map(|other| other.framework.version).min().map(Refusal::Covered)
}

/// Why a row is not for the project, whatever other rows there are.
fn refuse_alone(spec: &BuildSpec, variant: &Variant, host: Cpu) -> Option<Refusal> {
    let backend = variant.backend.id();
    let torch = variant.framework.version;
    let Some(section) = spec.torch() else { return Some(Refusal::Noarch) };
    if variant.cpu != host {
        return Some(Refusal::OtherCpu(variant.cpu));
    }
    if !spec.declares(backend) {
        return Some(Refusal::Undeclared(backend));
    }
    if spec.kernels_of(backend).next().is_none() {
        return Some(Refusal::NoKernel(backend));
    }
    match (variant.framework.abi, section.stable_abi.as_ref().and_then(|abi| abi.floor(backend))) {
        (Abi::Full, Some(_)) => return Some(Refusal::WantsStable(backend)),
        (Abi::Stable, None) => return Some(Refusal::WantsFull(backend)),
        (Abi::Stable, Some(floor)) if torch < floor => return Some(Refusal::BelowFloor(floor)),
        (Abi::Stable, Some(_)) | (Abi::Full, None) => {}
    }
    if !section.versions.contains(torch) {
        return Some(Refusal::TorchRange(torch));
    }
    match variant.backend {
        Toolkit::Cuda(cuda) if !spec.general.cuda.contains(cuda) => Some(Refusal::CudaRange(cuda)),
        Toolkit::Cuda(_) | Toolkit::Cpu => None,
    }
}
