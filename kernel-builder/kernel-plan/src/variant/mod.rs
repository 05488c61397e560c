//! The build variants: what one compiled folder of the hub is for.
//!
//! Owns: the axes of a variant and the id that follows from them.
//! Never: decides how a variant is compiled.

use std::str::FromStr;

use serde::Serialize;

use crate::units::{BackendId, UnitError, VariantId, Version, plain_number};

pub mod codes;
mod matrix;
mod select;

pub use matrix::{Matrix, Row};
pub use select::{Explained, Refusal, explain, select};

/// One combination of framework, toolkit and machine. Its id follows from the axes, so it is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Variant {
    /// What the code plugs into.
    pub framework: Torch,
    /// What compiles and runs the device code.
    pub backend: Toolkit,
    /// The host processor.
    pub cpu: Cpu,
    /// The operating system.
    pub os: Os,
}

/// PyTorch, by version and by how much of it the binary relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Torch {
    /// The torch that is compiled against; with the stable ABI also the oldest that loads the result.
    pub version: Version,
    /// Which interface is used.
    pub abi: Abi,
}

crate::units::named_values!(
    /// Which of torch's binary interfaces the code uses.
    Abi, "an ABI", {
        /// C++, good for exactly one torch version.
        Full = "full",
        /// The stable C interface, good for this torch and later ones.
        Stable = "stable",
    }
);

/// The toolkit of the device code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Toolkit {
    /// The host compiler alone.
    Cpu,
    /// The CUDA toolkit of this version.
    Cuda(Version),
}

impl Toolkit {
    /// The backend that the toolkit belongs to.
    pub const fn id(self) -> BackendId {
        match self {
            Self::Cpu => BackendId::Cpu,
            Self::Cuda(_) => BackendId::Cuda,
        }
    }
}

crate::units::named_values!(
    /// The host processor.
    Cpu, "a processor", {
        /// AMD and Intel, 64 bits.
        X86_64 = "x86_64",
        /// Arm, 64 bits.
        Aarch64 = "aarch64",
    }
);

crate::units::named_values!(
    /// The operating system.
    Os, "an operating system", {
        /// Linux with the GNU C library.
        Linux = "linux",
    }
);

crate::units::named_values!(
    /// Where a toolchain comes from.
    Provider, "a toolchain provider", {
        /// Compiler and headers from the Python package index.
        Wheels = "wheels",
        /// What is installed on the machine.
        System = "system",
    }
);

impl Variant {
    /// The name of the variant's folder, in the grammar of the hub's client.
    pub fn id(&self) -> VariantId {
        let torch = self.framework.version.digits();
        let framework = match self.framework.abi {
            Abi::Full => format!("torch{torch}-cxx11"),
            Abi::Stable => format!("torch-stable-abi{torch}"),
        };
        let backend = match self.backend {
            Toolkit::Cpu => "cpu".to_owned(),
            Toolkit::Cuda(version) => format!("cu{}", version.digits()),
        };
        let id = format!("{framework}-{backend}-{}-{}", self.cpu, self.os);
        id.parse().expect("the parts of an id are lower-case letters, digits, `_` and `-`")
    }
}

impl FromStr for Variant {
    type Err = UnitError;

    /// Reads an id back: one digit of torch's major version, one of CUDA's minor version.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        from_id(text).ok_or_else(|| UnitError {
            text: text.to_owned(),
            kind: "a variant that this version builds",
            want: "write it as in torch-stable-abi211-cu130-x86_64-linux or torch211-cxx11-cpu-x86_64-linux"
                .to_owned(),
        })
    }
}

fn from_id(text: &str) -> Option<Variant> {
    let (abi, rest) = match text.strip_prefix("torch-stable-abi") {
        Some(rest) => (Abi::Stable, rest),
        None => (Abi::Full, text.strip_prefix("torch")?),
    };
    let mut parts = rest.split('-');
    let version = torch_version(parts.next()?)?;
    if abi == Abi::Full && parts.next()? != "cxx11" {
        return None;
    }
    let backend = match parts.next()? {
        "cpu" => Toolkit::Cpu,
        cuda => Toolkit::Cuda(cuda_version(cuda.strip_prefix("cu")?)?),
    };
    let cpu = parts.next()?.parse().ok()?;
    let os = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(Variant { framework: Torch { version, abi }, backend, cpu, os })
}

/// `211` is torch 2.11: the first digit is the major version.
fn torch_version(digits: &str) -> Option<Version> {
    let (major, minor) = digits.split_at_checked(1)?;
    Some(Version::new(plain_number(major)?, plain_number(minor)?))
}

/// `130` is CUDA 13.0: the last digit is the minor version.
fn cuda_version(digits: &str) -> Option<Version> {
    let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
    Some(Version::new(plain_number(major)?, plain_number(minor)?))
}
