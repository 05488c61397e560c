//! The build variants: what one folder of the hub is for.
//!
//! Owns: the axes of a variant. Never: decides how a variant is compiled.

use serde::{Serialize, Serializer};

use crate::units::{BackendId, Version};

pub mod codes;
mod id;
mod matrix;
pub mod preference;
mod provision;
mod refusal;
mod saving;
mod select;
pub mod selector;
mod toolkit;

pub use matrix::{Matrix, Row};
pub use provision::{Missing, Offer, Provision, Tool};
pub use refusal::Refusal;
pub use saving::{Saving, saving};
pub use select::{Decision, Explained, Extent, SelectedVariants, explain, reasons, select};
pub use selector::Selector;
pub use toolkit::{Toolkit, compiled_with};

/// One combination of framework, toolkit and machine. Its id follows from the axes, so it is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// Compiled code.
    Compiled(Compiled),
    /// Python alone, on torch.
    Noarch(Noarch),
}

/// The axes of compiled code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Compiled {
    /// What the code plugs into.
    pub framework: Framework,
    /// What compiles and runs the device code.
    pub toolkit: Toolkit,
    /// The host processor.
    pub cpu: Cpu,
    /// The operating system.
    pub os: Os,
}

/// What compiled code plugs into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Framework {
    /// PyTorch.
    Torch(Torch),
    /// Apache TVM's foreign function interface, of this version.
    TvmFfi(Version),
}

/// PyTorch, by version and by how much of it the binary relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Torch {
    /// The torch that is compiled against; with the stable ABI also the oldest that loads the result.
    pub version: Version,
    /// Which interface is used.
    pub abi: Abi,
}

/// Which of torch's binary interfaces the code uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Abi {
    /// The stable C interface, good for this torch and later ones.
    Stable,
    /// C++, good for exactly one torch version.
    Full(Tag),
}

/// The tag for the C++ library's strings that an id may carry. New builds carry `cxx11` on Linux and none elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag {
    /// No tag: the client does not ask.
    None,
    /// The strings of GCC 5 and later.
    Cxx11,
    /// The strings before that; no torch is built so any more.
    Cxx98,
}

/// Python alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Noarch {
    /// For the devices of one backend.
    For(BackendId),
    /// For every backend; read for the sake of old folders, never built.
    Universal,
}

crate::units::named_values!(
    /// How a row of variants.toml writes the interface.
    AbiName, "an ABI", {
        /// C++.
        Full = "full",
        /// The stable C interface.
        Stable = "stable",
    }
);

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
        /// macOS.
        Darwin = "darwin",
        /// Windows; read for the sake of folders that have it, not built.
        Windows = "windows",
    }
);

crate::units::named_values!(
    /// Where a toolchain comes from.
    Provider, "a toolchain provider", {
        /// Compiler and headers from the Python package index.
        Wheels = "wheels",
        /// What is installed on the machine.
        System = "system",
        /// A Nix store.
        Nix = "nix",
    }
);

impl AbiName {
    /// The interface of a build that is made now, for the system `os`.
    pub const fn abi(self, os: Os) -> Abi {
        match (self, os) {
            (Self::Stable, _) => Abi::Stable,
            (Self::Full, Os::Linux) => Abi::Full(Tag::Cxx11),
            (Self::Full, Os::Darwin | Os::Windows) => Abi::Full(Tag::None),
        }
    }
}

impl Compiled {
    /// torch, where the code plugs into it.
    pub const fn torch(&self) -> Option<Torch> {
        match self.framework {
            Framework::Torch(torch) => Some(torch),
            Framework::TvmFfi(_) => None,
        }
    }
}

impl Variant {
    /// The axes of compiled code; `None` for Python alone.
    pub const fn compiled(&self) -> Option<&Compiled> {
        match self {
            Self::Compiled(compiled) => Some(compiled),
            Self::Noarch(_) => None,
        }
    }

    /// torch, for code that is compiled against it.
    pub fn torch(&self) -> Option<Torch> {
        self.compiled()?.torch()
    }

    /// The toolkit of compiled code.
    pub fn toolkit(&self) -> Option<Toolkit> {
        Some(self.compiled()?.toolkit)
    }

    /// The version of CUDA that the code is compiled with.
    pub fn cuda(&self) -> Option<Version> {
        match self.toolkit()? {
            Toolkit::Cuda(version) => Some(version),
            _ => None,
        }
    }

    /// The backend; `None` for what is for every backend.
    pub fn backend(&self) -> Option<BackendId> {
        match self {
            Self::Compiled(compiled) => Some(compiled.toolkit.id()),
            Self::Noarch(Noarch::For(backend)) => Some(*backend),
            Self::Noarch(Noarch::Universal) => None,
        }
    }
}

impl Serialize for Variant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
