//! The build variants: what one compiled folder of the hub is for.
//!
//! Owns: the axes of a variant and the id that follows from them.
//! Never: decides how a variant is compiled.

use serde::Serialize;

use crate::units::{BackendId, VariantId, Version};

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
