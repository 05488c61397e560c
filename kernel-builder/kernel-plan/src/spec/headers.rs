//! Which dependency of build.toml brings a header, and which of torch's headers are stable.
//!
//! Owns: the names of the headers' folders.
//! Never: looks whether a header is there.

use crate::units::BackendId;

use super::build::Dependency;

/// Where torch's own headers lie.
const TORCH: &[&str] = &["ATen/", "c10/", "caffe2/", "torch/"];

/// The headers that keep their meaning from one torch to the next (PyTorch's documentation of the stable ABI): the
/// stable C++ wrappers, what needs no library, and the C shim below both.
const STABLE: &[&str] = &[
    "torch/csrc/stable/",
    "torch/headeronly/",
    "torch/csrc/inductor/aoti_torch/c/",
    "torch/csrc/inductor/aoti_torch/generated/c_shim_",
    "torch/version.h",
];

/// Headers that bring pybind11 along.
const PYBIND: &[&str] = &["torch/extension.h", "torch/python.h"];

/// Folders of the metal-cpp headers, which end in `.hpp`; Apple's own end in `.h`.
const METAL_CPP: &[&str] = &["Foundation/", "Metal/", "MetalFX/", "QuartzCore/"];

/// What a header belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    /// PyTorch.
    Torch,
    /// CUTLASS and CuTe: NVIDIA's, or Intel's port of them.
    Cutlass,
    /// Apple's C++ wrappers of Metal.
    MetalCpp,
}

impl Library {
    /// What people call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Torch => "torch",
            Self::Cutlass => "CUTLASS",
            Self::MetalCpp => "metal-cpp",
        }
    }
}

/// The library of `depends` that a header belongs to.
pub(crate) fn library_of(header: &str) -> Option<Library> {
    let below = |folders: &[&str]| folders.iter().any(|folder| header.starts_with(folder));
    if below(TORCH) {
        Some(Library::Torch)
    } else if below(&["cutlass/", "cute/"]) {
        Some(Library::Cutlass)
    } else if below(METAL_CPP) && header.ends_with(".hpp") {
        Some(Library::MetalCpp)
    } else {
        None
    }
}

/// Whether a header is of torch and outside of its stable ABI.
pub(crate) fn is_unstable(header: &str) -> bool {
    library_of(header) == Some(Library::Torch) && !STABLE.iter().any(|stable| header.starts_with(stable))
}

/// Whether a header is pybind11's, or brings it.
pub(crate) fn is_pybind(header: &str) -> bool {
    header.starts_with("pybind11/") || PYBIND.contains(&header)
}

/// What a dependency brings, and the one backend that it is for.
pub(crate) fn brings(dependency: Dependency) -> (Library, Option<BackendId>) {
    match dependency.as_str() {
        "torch" => (Library::Torch, None),
        "sycl_tla" => (Library::Cutlass, Some(BackendId::Xpu)),
        "metal-cpp" => (Library::MetalCpp, Some(BackendId::Metal)),
        _ => (Library::Cutlass, Some(BackendId::Cuda)),
    }
}

/// The newest dependency that brings a library to a backend.
pub(crate) fn newest(library: Library, backend: BackendId) -> Option<Dependency> {
    let fits = |dependency: &&Dependency| {
        let (brought, only) = brings(**dependency);
        brought == library && only.is_none_or(|only| only == backend)
    };
    Dependency::ALL.iter().rev().find(fits).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_belong_to_libraries() {
        assert_eq!(library_of("c10/util/Half.h"), Some(Library::Torch));
        assert_eq!(library_of("cute/tensor.hpp"), Some(Library::Cutlass));
        assert_eq!(library_of("Metal/Metal.hpp"), Some(Library::MetalCpp));
        assert_eq!(library_of("Metal/Metal.h"), None);
        assert_eq!(library_of("cuda_runtime.h"), None);
        assert!(is_unstable("torch/all.h") && is_unstable("ATen/ATen.h"));
        assert!(!is_unstable("torch/csrc/stable/tensor.h"));
        assert!(!is_unstable("torch/csrc/inductor/aoti_torch/c/shim.h"));
        assert!(is_unstable("torch/csrc/inductor/aoti_torch/utils.h"));
    }

    #[test]
    fn every_dependency_is_the_newest_or_older_for_its_backend() {
        for dependency in Dependency::ALL {
            let (library, only) = brings(*dependency);
            assert!(newest(library, only.unwrap_or(BackendId::Cpu)).is_some(), "{}", dependency.as_str());
        }
        let name = |library, backend| newest(library, backend).map(Dependency::as_str);
        assert_eq!(name(Library::Cutlass, BackendId::Cuda), Some("cutlass_4_5"));
        assert_eq!(name(Library::Cutlass, BackendId::Xpu), Some("sycl_tla"));
        assert_eq!(name(Library::Cutlass, BackendId::Cpu), None);
    }
}
