//! What a build uses: compilers, headers and libraries, as plain values.
//!
//! Owns: the vocabulary between the toolchain stage (which finds and fetches) and the backends (which plan with it).
//! Never: looks whether any of the paths exist.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::spec::nvcc;
use crate::units::Capability;

/// Everything that the compiler lines of one project need.
///
/// Every part carries an `id`: it changes when the part's content changes and is the same in every run, so it belongs
/// into the key under which a compiled object is cached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchain {
    /// The C++ compiler, also nvcc's host compiler.
    pub cxx: Compiler,
    /// CUDA; absent when only CPU variants are wanted.
    pub cuda: Option<CudaKit>,
    /// The tools of another accelerator; absent for cpu and CUDA.
    pub device: Option<DeviceKit>,
    /// Headers of what the code plugs into, and the libraries to link with.
    pub framework: FrameworkKit,
    /// Header libraries that kernels list under `depends`; a unit sees those of its own kernel alone.
    pub libraries: Vec<LibraryKit>,
    /// The folder of our `registration.h`; its name holds a digest of the header.
    pub extension_include: PathBuf,
    /// What a library that loads on systems of the manylinux_2_28 age is linked with; absent when it is only for
    /// systems like this one.
    pub portable: Option<PortableKit>,
}

/// A C++ compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiler {
    /// The executable, absolute.
    pub program: PathBuf,
    /// First line of `--version`, e.g. `g++ (Debian 12.2.0-14) 12.2.0`.
    pub version: String,
    /// Identity of the compiler, hexadecimal.
    pub id: String,
}

impl Compiler {
    /// Whether it is a Clang, Apple's included; it knows other flags than GCC.
    pub fn is_clang(&self) -> bool {
        self.version.contains("clang")
    }

    /// Its release and the first half of its identity: `(Debian 12.2.0-14) 12.2.0 8f14...`, the same for every name that it
    /// is called by.
    pub fn described(&self) -> String {
        // The driver's own name is the first word of GCC's version: `g++` and `c++` are the same program.
        let release = self.version.split_once(' ').map_or(self.version.as_str(), |(_, release)| release);
        let short: String = self.id.chars().take(32).collect();
        format!("{release} {short}")
    }
}

/// A CUDA toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaKit {
    /// The CUDA version, `MAJOR.MINOR`, e.g. `13.0`.
    pub version: String,
    /// The driver program of the compiler, absolute.
    pub nvcc: PathBuf,
    /// The folder above `bin`.
    pub root: PathBuf,
    /// Folders to search for headers.
    pub include: Vec<PathBuf>,
    /// The CUDA runtime to link with: a full path such as `.../libcudart.so.13`.
    pub cudart: PathBuf,
    /// Another release's compiler, where this toolkit came without one.
    pub front: Option<FrontEnd>,
    /// Whether the compiler was installed on this system, not fetched.
    pub installed: bool,
    /// Identity of the toolkit, hexadecimal.
    pub id: String,
}

/// The tools of an accelerator other than NVIDIA's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceKit {
    /// AMD's.
    Rocm(RocmKit),
    /// Intel's.
    Xpu(XpuKit),
    /// Apple's.
    Metal(MetalKit),
}

impl DeviceKit {
    /// Identity of the tools, hexadecimal.
    pub fn id(&self) -> &str {
        match self {
            Self::Rocm(rocm) => &rocm.id,
            Self::Xpu(xpu) => &xpu.id,
            Self::Metal(metal) => &metal.id,
        }
    }

    /// Folders of the toolkit to search for headers; those that its own compiler finds alone are not among them.
    pub fn include(&self) -> &[PathBuf] {
        match self {
            Self::Rocm(rocm) => &rocm.include,
            Self::Xpu(xpu) => &xpu.include,
            Self::Metal(metal) => &metal.include,
        }
    }
}

/// ROCm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RocmKit {
    /// The version, `MAJOR.MINOR`, e.g. `7.1`.
    pub version: String,
    /// The driver program of the compiler, absolute.
    pub hipcc: PathBuf,
    /// The folder above `bin`.
    pub root: PathBuf,
    /// Folders to search for headers, for the host's compiler.
    pub include: Vec<PathBuf>,
    /// Clang's static support library, which code of hipcc may call and an old libgcc lacks.
    pub builtins: Option<PathBuf>,
    /// What makes HIP of CUDA sources.
    pub hipify: HipifyKit,
    /// Identity of the toolkit, hexadecimal.
    pub id: String,
}

/// PyTorch's translator from CUDA to HIP, of the release that is built for, and what runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HipifyKit {
    /// The PyTorch release that it comes from, e.g. `2.11.0`.
    pub torch: String,
    /// The Python interpreter.
    pub python: PathBuf,
    /// Our script, which copies the sources and has them translated.
    pub script: PathBuf,
    /// The folder `torch/utils/hipify`.
    pub package: PathBuf,
}

/// Intel's oneAPI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XpuKit {
    /// The compiler's version by year and release, e.g. `2025.3`.
    pub version: String,
    /// The C++ compiler, absolute.
    pub icpx: PathBuf,
    /// The folder above `bin`.
    pub root: PathBuf,
    /// Folders to search for headers beside the compiler's own: oneDNN's, where it is installed.
    pub include: Vec<PathBuf>,
    /// oneDNN's library: a full path such as `.../libdnnl.so`, where it is installed.
    pub onednn: Option<PathBuf>,
    /// Whether `ocloc` is there, which compiles ahead of time; without it a GPU's driver compiles when a kernel is
    /// first used.
    pub ahead_of_time: bool,
    /// Identity of the tools, hexadecimal.
    pub id: String,
}

/// Apple's Metal compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetalKit {
    /// The version of the macOS SDK, e.g. `26.1`.
    pub version: String,
    /// The program that finds the others, absolute.
    pub xcrun: PathBuf,
    /// Folders to search for headers: the one of our `kernelwright_metallib.h`.
    pub include: Vec<PathBuf>,
    /// Our assembler source that puts the shaders into an object.
    pub embedder: PathBuf,
    /// Identity of the tools, hexadecimal.
    pub id: String,
}

/// The compiler of a newer CUDA that works with the headers and the assembler of an older one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontEnd {
    /// Its version, `MAJOR.MINOR`, e.g. `13.0`.
    pub version: String,
    /// The folder above its `bin`.
    pub root: PathBuf,
    /// The version of PTX that the older assembler knows, e.g. `8.5`.
    pub ptx: String,
    /// The build number that the older compiler would report in `__CUDACC_VER_BUILD__`.
    pub build: u32,
}

impl CudaKit {
    /// Where the compiler of this toolkit comes from, as a sentence without a full stop. `left_out` are capabilities that
    /// the toolkit's own compiler has and this one has not.
    pub fn route(&self, left_out: &[String]) -> String {
        let Self { version, nvcc, .. } = self;
        let from = match &self.front {
            Some(front) => {
                format!("front end of nvcc {} with the headers and the assembler of {version}", front.version)
            }
            None if self.installed => format!("nvcc {version} at {}", nvcc.display()),
            None => format!("nvcc {version} from wheels"),
        };
        if left_out.is_empty() {
            return format!("CUDA {version}: {from}");
        }
        let names = left_out.join(", ");
        format!("CUDA {version}: {from}; no code for {names}, which takes an installed nvcc {version}")
    }

    /// Whether this toolkit's compiler generates code for a capability that its release has: one that is lent knows
    /// no architecture that its own release has dropped.
    pub fn reaches(&self, capability: Capability) -> bool {
        let lent = self.front.as_ref().and_then(|front| front.version.parse().ok());
        lent.is_none_or(|version| nvcc::compiles(capability, version))
    }
}

/// What the code plugs into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrameworkKit {
    /// PyTorch.
    Torch(TorchKit),
    /// Apache TVM's foreign function interface.
    TvmFfi(TvmFfiKit),
}

impl FrameworkKit {
    /// PyTorch's kit, for code that plugs into it.
    pub const fn torch(&self) -> Option<&TorchKit> {
        match self {
            Self::Torch(torch) => Some(torch),
            Self::TvmFfi(_) => None,
        }
    }

    /// Folders to search for headers, in order.
    pub fn include(&self) -> &[PathBuf] {
        match self {
            Self::Torch(torch) => &torch.include,
            Self::TvmFfi(tvm_ffi) => &tvm_ffi.include,
        }
    }

    /// A folder of empty libraries with the framework's SONAMEs, to link with.
    pub fn stubs(&self) -> &Path {
        match self {
            Self::Torch(torch) => &torch.stubs,
            Self::TvmFfi(tvm_ffi) => &tvm_ffi.stubs,
        }
    }

    /// Identity of the headers, hexadecimal.
    pub fn id(&self) -> &str {
        match self {
            Self::Torch(torch) => &torch.id,
            Self::TvmFfi(tvm_ffi) => &tvm_ffi.id,
        }
    }
}

/// What a PyTorch extension compiles and links against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TorchKit {
    /// The PyTorch release, e.g. `2.11.0`.
    pub version: String,
    /// Folders to search for headers, in order.
    pub include: Vec<PathBuf>,
    /// A folder of empty libraries with PyTorch's SONAMEs (libc10.so, libtorch.so, libtorch_cpu.so,
    /// libtorch_cuda.so, libc10_cuda.so). Linking with them under `--no-as-needed` records the dependency, which the
    /// real libraries satisfy when the extension is loaded.
    pub stubs: PathBuf,
    /// Identity of the headers, hexadecimal.
    pub id: String,
}

/// What a library for Apache TVM's foreign function interface compiles and links against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TvmFfiKit {
    /// The release of apache-tvm-ffi, e.g. `0.1.15`.
    pub version: String,
    /// Folders to search for headers, in order.
    pub include: Vec<PathBuf>,
    /// A folder that holds an empty `libtvm_ffi.so`; linking with it records the dependency, as with PyTorch's.
    pub stubs: PathBuf,
    /// Identity of the headers, hexadecimal.
    pub id: String,
}

/// A library of headers, such as CUTLASS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryKit {
    /// As build.toml writes it under `depends`, e.g. `cutlass_3_8`.
    pub name: String,
    /// Its release, e.g. `3.8.0`.
    pub version: String,
    /// Folders to search for headers, in order.
    pub include: Vec<PathBuf>,
    /// Identity of the headers, hexadecimal.
    pub id: String,
}

/// Stand-ins for the C and C++ libraries, cut to the versions that manylinux_2_28 (PEP 600) has, and the parts of the
/// compiler that are linked in beside them.
///
/// What the old libraries have stays shared with the rest of the process; only what they lack comes from the static
/// libstdc++.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortableKit {
    /// A folder of stand-ins: `libstdc++.so.6`, `libgcc_s.so.1`, glibc's `libc.so.6`, `libm.so.6`, `libmvec.so.1`,
    /// `libpthread.so.0`, `libdl.so.2`, `librt.so.1` and the one in `loader`.
    pub stubs: PathBuf,
    /// File name of the dynamic loader's stand-in in `stubs`, e.g. `ld-linux-x86-64.so.2`.
    pub loader: String,
    /// Archive with hidden definitions of what newer headers use and old libraries lack.
    pub shim: PathBuf,
    /// Version script that says which symbols a library exports.
    pub exports: PathBuf,
    /// Names that are newer than manylinux_2_28, one `NAME VERSION` a line, to tell a person which one was used.
    pub newer: PathBuf,
    /// Start of the initialisation functions.
    pub crti: PathBuf,
    /// End of the initialisation functions.
    pub crtn: PathBuf,
    /// The compiler's first object of a shared library.
    pub crtbegin: PathBuf,
    /// The compiler's last object of a shared library.
    pub crtend: PathBuf,
    /// The static C++ library.
    pub libstdcxx: PathBuf,
    /// The compiler's static support library.
    pub libgcc: PathBuf,
    /// The static part of the C library, e.g. `atexit`.
    pub libc_nonshared: PathBuf,
    /// Identity of the content of all of it, hexadecimal; also the name of the folder that holds what was made.
    pub id: String,
}
