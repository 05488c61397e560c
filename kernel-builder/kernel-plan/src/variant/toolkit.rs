//! The toolkit of a variant: which backend, in which version.
//!
//! Owns: the backend part of an id, as in `cu130`, `rocm71`, `xpu20253`.
//! Never: knows which toolkits exist; variants.toml does.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::spec::build::Kernel;
use crate::units::{BackendId, Version, plain_number};

/// What compiles and runs the device code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Toolkit {
    /// The host compiler alone.
    Cpu,
    /// The CUDA toolkit of this version.
    Cuda(Version),
    /// ROCm of this version.
    Rocm(Version),
    /// Intel's oneAPI, by year and release: 2025.3.
    Xpu(Version),
    /// Apple's compiler.
    Metal,
    /// AWS Neuron.
    Neuron,
    /// Google's TPU compiler.
    Tpu,
    /// Huawei's CANN of this version.
    Cann(Version),
}

/// Makes a toolkit of its version.
type WithVersion = fn(Version) -> Toolkit;

/// The backends whose toolkit has a version, with what precedes it in an id.
const VERSIONED: &[(&str, WithVersion)] =
    &[("cu", Toolkit::Cuda), ("rocm", Toolkit::Rocm), ("xpu", Toolkit::Xpu), ("cann", Toolkit::Cann)];

/// The backends that are one word in an id.
const PLAIN: &[(&str, Toolkit)] =
    &[("cpu", Toolkit::Cpu), ("metal", Toolkit::Metal), ("neuron", Toolkit::Neuron), ("tpu", Toolkit::Tpu)];

impl Toolkit {
    /// The backend that the toolkit belongs to.
    pub const fn id(self) -> BackendId {
        match self {
            Self::Cpu => BackendId::Cpu,
            Self::Cuda(_) => BackendId::Cuda,
            Self::Rocm(_) => BackendId::Rocm,
            Self::Xpu(_) => BackendId::Xpu,
            Self::Metal => BackendId::Metal,
            Self::Neuron => BackendId::Neuron,
            Self::Tpu => BackendId::Tpu,
            Self::Cann(_) => BackendId::Cann,
        }
    }

    /// The toolkit's version, where its id has one.
    pub const fn version(self) -> Option<Version> {
        match self {
            Self::Cuda(version) | Self::Rocm(version) | Self::Xpu(version) | Self::Cann(version) => {
                Some(version)
            }
            Self::Cpu | Self::Metal | Self::Neuron | Self::Tpu => None,
        }
    }

    /// The toolkit of `backend`. `None`: a version where the backend has none, or none where it needs one.
    pub fn new(backend: BackendId, version: Option<Version>) -> Option<Self> {
        match version {
            None => PLAIN.iter().map(|(_, toolkit)| *toolkit).find(|toolkit| toolkit.id() == backend),
            Some(version) => {
                VERSIONED.iter().map(|(_, toolkit)| toolkit(version)).find(|toolkit| toolkit.id() == backend)
            }
        }
    }

    /// Reads the backend part of an id; the last digit of a version is its minor part.
    pub(super) fn from_id(text: &str) -> Option<Self> {
        if let Some((_, toolkit)) = PLAIN.iter().find(|(name, _)| *name == text) {
            return Some(*toolkit);
        }
        VERSIONED.iter().find_map(|(prefix, toolkit)| {
            let digits = text.strip_prefix(prefix)?;
            let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
            Some(toolkit(Version::new(plain_number(major)?, plain_number(minor)?)))
        })
    }
}

impl fmt::Display for Toolkit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |toolkit: &Self| PLAIN.iter().find(|(_, plain)| plain == toolkit).map(|(name, _)| *name);
        match self {
            Self::Cuda(version) => write!(f, "cu{}", version.digits()),
            Self::Rocm(version) => write!(f, "rocm{}", version.digits()),
            Self::Xpu(version) => write!(f, "xpu{}", version.digits()),
            Self::Cann(version) => write!(f, "cann{}", version.digits()),
            Self::Cpu | Self::Metal | Self::Neuron | Self::Tpu => f.write_str(word(self).unwrap_or_default()),
        }
    }
}

impl Serialize for Toolkit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `cuda-minver`: below it a section is left out, as the format defines.
pub fn compiled_with(kernel: &Kernel, toolkit: Toolkit) -> bool {
    match (toolkit, &kernel.cuda_minver) {
        (Toolkit::Cuda(version), Some(least)) => version >= least.value,
        _ => true,
    }
}
