//! build.toml, edition 5, after reading: the types.
//!
//! Owns: what a project says that it builds (the format is Hugging Face kernel-builder's).
//! Never: holds a key of our own, and never a default that depends on a toolkit.

use std::sync::Arc;

use crate::diagnostic::SourceFile;
use crate::units::{
    BackendId, Capability, FileExtension, GitRef, GitUrl, KernelName, License, PythonDependency, RelPath,
    RepoId, RocmArch, SectionName, UnitError, Version,
};

use super::Spanned;

/// A whole build.toml.
#[derive(Debug, Clone)]
pub struct BuildSpec {
    /// The file; every span points into it.
    pub file: Arc<SourceFile>,
    /// `[general]`.
    pub general: General,
    /// `[torch]`, `[torch-noarch]` or `[tvm-ffi]`.
    pub framework: Framework,
    /// `[kernel.NAME]`, in file order.
    pub kernels: Vec<Kernel>,
    /// How many `[kernel.NAME]` could not be read; a rule that misses a kernel then stays silent.
    pub unread_kernels: usize,
}

impl BuildSpec {
    /// Whether `general.backends` lists `backend`.
    pub fn declares(&self, backend: BackendId) -> bool {
        self.general.backends.iter().any(|declared| declared.value == backend)
    }

    /// The kernels of one backend, in file order.
    pub fn kernels_of(&self, backend: BackendId) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter().filter(move |kernel| kernel.backend.value == backend)
    }

    /// `[torch]`, where the project has compiled code for PyTorch.
    pub fn torch(&self) -> Option<&Torch> {
        match &self.framework {
            Framework::Torch(torch) => Some(torch),
            Framework::TorchNoarch(_) | Framework::TvmFfi(_) => None,
        }
    }

    /// `[tvm-ffi]`, where the project has compiled code behind the interface of TVM.
    pub fn tvm_ffi(&self) -> Option<&TvmFfi> {
        match &self.framework {
            Framework::TvmFfi(tvm_ffi) => Some(tvm_ffi),
            Framework::Torch(_) | Framework::TorchNoarch(_) => None,
        }
    }
}

/// `[general]`.
#[derive(Debug, Clone)]
pub struct General {
    /// The kernel's name; its Python module is `name.module()`.
    pub name: Spanned<KernelName>,
    /// Whether the file has a valid name; otherwise `name` stands in for one, and nothing follows from it.
    pub is_named: bool,
    /// Major version of the API; 0 is alpha.
    pub version: Spanned<u64>,
    /// Usually an SPDX expression.
    pub license: Spanned<License>,
    /// What the kernel is made for, as written (duplicates are a problem of their own).
    pub backends: Spanned<Vec<Spanned<BackendId>>>,
    /// Git address of the project that the kernel comes from.
    pub upstream: Option<Spanned<GitUrl>>,
    /// Git address of this project.
    pub source: Option<Spanned<GitUrl>>,
    /// Python packages that the kernel imports.
    pub python_depends: Vec<Spanned<PythonDependency>>,
    /// Kernels of the hub that the kernel loads.
    pub kernel_depends: Vec<KernelDepend>,
    /// `[general.hub]`.
    pub hub: Hub,
    /// `minver` and `maxver` of `[general.cuda]`.
    pub cuda: VersionRange,
    /// The dependencies that `[general.cuda]`, `neuron`, `tpu` and `xpu` add for one backend, in file order.
    pub backend_depends: Vec<BackendDepends>,
}

impl General {
    /// The Python packages of a variant for `backend`: those for all, then its own.
    pub fn python_depends_of(&self, backend: BackendId) -> impl Iterator<Item = PythonDependency> {
        let own = self.depends_of(backend).flat_map(|own| &own.python);
        self.python_depends.iter().chain(own).map(|depend| depend.value)
    }

    /// The kernels of the hub that a variant for `backend` needs: those for all, then its own.
    pub fn kernel_depends_of(&self, backend: BackendId) -> impl Iterator<Item = &KernelDepend> {
        self.kernel_depends.iter().chain(self.depends_of(backend).flat_map(|own| &own.kernels))
    }

    fn depends_of(&self, backend: BackendId) -> impl Iterator<Item = &BackendDepends> {
        self.backend_depends.iter().filter(move |own| own.backend == backend)
    }
}

/// A kernel of the hub that this one needs.
#[derive(Debug, Clone)]
pub struct KernelDepend {
    /// Where it is on the hub.
    pub repo_id: Spanned<RepoId>,
    /// Which of its versions.
    pub pin: KernelPin,
}

/// How a kernel dependency is pinned: exactly one of the two.
#[derive(Debug, Clone)]
pub enum KernelPin {
    /// `version = 1`.
    Version(u64),
    /// `revision = "..."`, a branch, tag or commit.
    Revision(GitRef),
}

/// `[general.hub]`: where the kernel is published.
#[derive(Debug, Clone, Default)]
pub struct Hub {
    /// `owner/name`.
    pub repo_id: Option<Spanned<RepoId>>,
    /// The branch; `v<version>` when absent.
    pub branch: Option<Spanned<GitRef>>,
}

/// What one backend needs beyond the whole kernel's dependencies.
#[derive(Debug, Clone)]
pub struct BackendDepends {
    /// The backend.
    pub backend: BackendId,
    /// Python packages.
    pub python: Vec<Spanned<PythonDependency>>,
    /// Kernels of the hub.
    pub kernels: Vec<KernelDepend>,
}

/// An inclusive range of versions, open where a bound is absent.
#[derive(Debug, Clone, Default)]
pub struct VersionRange {
    /// `minver`.
    pub min: Option<Spanned<Version>>,
    /// `maxver`.
    pub max: Option<Spanned<Version>>,
}

impl VersionRange {
    /// Whether `version` lies between the bounds, bounds included.
    pub fn contains(&self, version: Version) -> bool {
        self.min.as_ref().is_none_or(|min| min.value <= version)
            && self.max.as_ref().is_none_or(|max| version <= max.value)
    }
}

/// What the kernel plugs into.
#[derive(Debug, Clone)]
pub enum Framework {
    /// `[torch]`: compiled code registered with PyTorch.
    Torch(Torch),
    /// `[torch-noarch]`: Python code alone (Triton, CuTe DSL).
    TorchNoarch(TorchNoarch),
    /// `[tvm-ffi]`: compiled code behind the interface of TVM.
    TvmFfi(TvmFfi),
}

impl Framework {
    /// The sources and headers of the binding.
    pub fn src(&self) -> &[Spanned<RelPath>] {
        match self {
            Self::Torch(torch) => &torch.src,
            Self::TorchNoarch(_) => &[],
            Self::TvmFfi(tvm_ffi) => &tvm_ffi.src,
        }
    }

    /// The include folders of the binding.
    pub fn include(&self) -> &[Spanned<RelPath>] {
        match self {
            Self::Torch(torch) => &torch.include,
            Self::TorchNoarch(_) => &[],
            Self::TvmFfi(tvm_ffi) => &tvm_ffi.include,
        }
    }

    /// Extra flags for the C++ compiler, for the binding.
    pub fn cxx_flags(&self) -> &[Spanned<String>] {
        match self {
            Self::Torch(torch) => &torch.cxx_flags,
            Self::TorchNoarch(_) => &[],
            Self::TvmFfi(tvm_ffi) => &tvm_ffi.cxx_flags,
        }
    }

    /// What the names of shipped files end in.
    pub fn pyext(&self) -> &[FileExtension] {
        match self {
            Self::Torch(torch) => &torch.pyext,
            Self::TorchNoarch(noarch) => &noarch.pyext,
            Self::TvmFfi(tvm_ffi) => &tvm_ffi.pyext,
        }
    }

    /// The folder of the project that holds the Python package, in a folder named after the module.
    pub const fn folder(&self) -> &'static str {
        match self {
            Self::Torch(_) | Self::TorchNoarch(_) => "torch-ext",
            Self::TvmFfi(_) => "tvm-ffi-ext",
        }
    }
}

/// `[torch]`.
#[derive(Debug, Clone)]
pub struct Torch {
    /// Sources and headers of the binding.
    pub src: Vec<Spanned<RelPath>>,
    /// Include folders, from the project's folder.
    pub include: Vec<Spanned<RelPath>>,
    /// Extensions of the files that are shipped from `torch-ext/<module>`; `py` and `pyi` when not given.
    pub pyext: Vec<FileExtension>,
    /// Extra flags for the C++ compiler.
    pub cxx_flags: Vec<Spanned<String>>,
    /// `minver` and `maxver`.
    pub versions: VersionRange,
    /// `stable-abi`.
    pub stable_abi: Option<StableAbi>,
}

/// `torch.stable-abi`: the oldest torch that the stable-ABI build must load on.
#[derive(Debug, Clone)]
pub enum StableAbi {
    /// One version for every backend.
    All(Spanned<Version>),
    /// A version per backend; the others are built against the full ABI.
    PerBackend(Vec<(BackendId, Spanned<Version>)>),
}

impl StableAbi {
    /// The oldest torch for `backend`; `None`: that backend uses the full ABI.
    pub fn floor(&self, backend: BackendId) -> Option<Version> {
        match self {
            Self::All(version) => Some(version.value),
            Self::PerBackend(floors) => {
                floors.iter().find(|(id, _)| *id == backend).map(|(_, version)| version.value)
            }
        }
    }
}

/// `[torch-noarch]`. Its keys are in snake case in the format that we follow.
#[derive(Debug, Clone)]
pub struct TorchNoarch {
    /// Extensions of the files that are shipped; `py` and `pyi` when not given.
    pub pyext: Vec<FileExtension>,
    /// `cuda_capabilities`.
    pub cuda_capabilities: Vec<Spanned<Capability>>,
    /// `rocm_archs`.
    pub rocm_archs: Vec<Spanned<RocmArch>>,
}

/// `[tvm-ffi]`.
#[derive(Debug, Clone)]
pub struct TvmFfi {
    /// Sources and headers of the binding.
    pub src: Vec<Spanned<RelPath>>,
    /// Include folders, from the project's folder.
    pub include: Vec<Spanned<RelPath>>,
    /// Extensions of the files that are shipped from `tvm-ffi-ext/<module>`; `py` and `pyi` when not given.
    pub pyext: Vec<FileExtension>,
    /// Extra flags for the C++ compiler.
    pub cxx_flags: Vec<Spanned<String>>,
}

/// One `[kernel.NAME]`.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// `NAME`, with the place of the section's header.
    pub name: Spanned<SectionName>,
    /// What it is compiled for.
    pub backend: Spanned<BackendId>,
    /// What it includes or links.
    pub depends: Vec<Spanned<Dependency>>,
    /// Sources and headers.
    pub src: Vec<Spanned<RelPath>>,
    /// Include folders, from the project's folder.
    pub include: Vec<Spanned<RelPath>>,
    /// Extra flags for the C++ compiler.
    pub cxx_flags: Vec<Spanned<String>>,
    /// `cuda-capabilities` (backend cuda); empty: the toolkit's defaults.
    pub cuda_capabilities: Vec<Spanned<Capability>>,
    /// `cuda-flags` (backend cuda): extra flags for nvcc.
    pub cuda_flags: Vec<Spanned<String>>,
    /// `cuda-minver` (backend cuda): the kernel is left out below this toolkit.
    pub cuda_minver: Option<Spanned<Version>>,
    /// `rocm-archs` (backend rocm).
    pub rocm_archs: Vec<Spanned<RocmArch>>,
    /// `hip-flags` (backend rocm).
    pub hip_flags: Vec<Spanned<String>>,
    /// `sycl-flags` (backend xpu).
    pub sycl_flags: Vec<Spanned<String>>,
}

impl Kernel {
    /// The flags of every key that has some, in the order of the keys.
    pub fn flags(&self) -> impl Iterator<Item = &Spanned<String>> {
        let Self { cxx_flags, cuda_flags, hip_flags, sycl_flags, .. } = self;
        [cxx_flags, cuda_flags, hip_flags, sycl_flags].into_iter().flatten()
    }
}

/// An entry of `depends`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dependency(&'static str);

impl Dependency {
    /// Every dependency of edition 5.
    pub const ALL: &[Self] = &[
        Self("torch"),
        Self("cutlass_2_10"),
        Self("cutlass_3_5"),
        Self("cutlass_3_6"),
        Self("cutlass_3_8"),
        Self("cutlass_3_9"),
        Self("cutlass_4_0"),
        Self("cutlass_4_4"),
        Self("cutlass_4_5"),
        Self("sycl_tla"),
        Self("metal-cpp"),
    ];

    /// As build.toml writes it.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// The release line of CUTLASS, for the entries that name one: `cutlass_3_8` is 3.8.
    pub fn cutlass(self) -> Option<Version> {
        let (major, minor) = self.0.strip_prefix("cutlass_")?.split_once('_')?;
        Some(Version::new(major.parse().ok()?, minor.parse().ok()?))
    }
}

impl std::str::FromStr for Dependency {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        Self::ALL.iter().copied().find(|known| known.0 == text).ok_or_else(|| UnitError {
            text: text.to_owned(),
            kind: "a dependency",
            want: format!(
                "valid values: {}",
                Self::ALL.iter().map(|known| known.0).collect::<Vec<_>>().join(", ")
            ),
        })
    }
}
