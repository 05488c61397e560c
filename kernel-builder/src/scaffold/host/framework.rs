//! What the binding of a project plugs into.
//!
//! Owns: the framework's names: its section of build.toml, its folder, the files of its binding. Never: renders one.

use kernel_plan::spec::build;

/// What a generated binding is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Framework {
    /// PyTorch, through its stable ABI.
    #[default]
    Torch,
    /// Any framework with DLPack, through tvm-ffi; the Python package takes PyTorch tensors.
    TvmFfi,
}

impl Framework {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Torch, Self::TvmFfi];

    /// The framework of a project; none for Python alone.
    pub const fn from_build(framework: &build::Framework) -> Option<Self> {
        match framework {
            build::Framework::Torch(_) => Some(Self::Torch),
            build::Framework::TvmFfi(_) => Some(Self::TvmFfi),
            build::Framework::TorchNoarch(_) => None,
        }
    }

    /// Its section of build.toml.
    pub const fn section(self) -> &'static str {
        match self {
            Self::Torch => "torch",
            Self::TvmFfi => "tvm-ffi",
        }
    }

    /// The folder of the binding and of the Python package.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Torch => "torch-ext",
            Self::TvmFfi => "tvm-ffi-ext",
        }
    }

    /// The source of the binding, which tells whether a host side is generated.
    pub const fn binding(self) -> &'static str {
        match self {
            Self::Torch => "torch-ext/torch_binding.cpp",
            Self::TvmFfi => "tvm-ffi-ext/tvm_ffi_binding.cpp",
        }
    }

    /// The module of the package that has PyTorch's operators.
    pub const fn operators(self) -> &'static str {
        match self {
            Self::Torch => "_ops",
            Self::TvmFfi => "_operators",
        }
    }
}
