//! The shape of build.toml, edition 5.
//!
//! Owns: its keys, their descriptions, and which of them exclude each other.
//! Never: is filled with values; `spec::build` has the types for those.
#![expect(dead_code, reason = "only the shape of these types is used: the derive makes the schema of it")]

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::spec::build::Dependency;
use crate::units::{
    BackendId, Capability, FileExtension, GitRef, GitUrl, KernelName, License, RelPath, RepoId, RocmArch,
    SectionName, Version,
};

use super::values::{
    CompiledBackend, PackagesOfAll, PackagesOfCuda, PackagesOfNeuron, PackagesOfTpu, PackagesOfXpu, StableAbi,
};

/// What a kernel project builds, in the format of Hugging Face's kernel-builder.
#[derive(JsonSchema)]
#[schemars(title = "build.toml, edition 5", deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("oneOf" = [{ "required": ["torch"] }, { "required": ["torch-noarch"] }, { "required": ["tvm-ffi"] }]))]
pub(super) struct Build {
    /// Who the kernel is, and what it is made for.
    general: General,
    /// Compiled code that is registered with PyTorch. One of [torch], [torch-noarch] and [tvm-ffi] is there.
    torch: Option<Torch>,
    /// Python alone: Triton, CuTe DSL, Helion. One of [torch], [torch-noarch] and [tvm-ffi] is there.
    torch_noarch: Option<TorchNoarch>,
    /// Compiled code behind the interface of TVM. One of [torch], [torch-noarch] and [tvm-ffi] is there.
    tvm_ffi: Option<TvmFfi>,
    /// One section `[kernel.NAME]` for each piece of code of one backend. NAME has letters, digits, `-` and `_`.
    kernel: Option<BTreeMap<SectionName, Kernel>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("dependencies" = { "kernel-depends": ["edition"], "tpu": ["edition"] }))]
struct General {
    /// The kernel's name: lower-case letters, digits and `-`. `fast-norm` is imported as `fast_norm`.
    name: KernelName,
    /// The major version of the kernel's interface; it is published on the branch `v<version>`. 0 is alpha.
    version: u64,
    /// The edition of this format: 5. Without it the file is read as one of edition 4.
    #[schemars(extend("const" = 5))]
    edition: Option<u64>,
    /// The license, best as an SPDX expression.
    license: License,
    /// What the kernel is made for. A backend without a kernel section gets the Python code alone.
    #[schemars(length(min = 1), extend("uniqueItems" = true, "examples" = [["cuda"], ["cpu", "cuda"]]))]
    backends: Vec<BackendId>,
    /// The git repository of the project that the kernel comes from.
    upstream: Option<GitUrl>,
    /// The git repository of this project.
    source: Option<GitUrl>,
    /// Python packages that the kernel imports on every backend, beside torch.
    python_depends: Option<PackagesOfAll>,
    /// Kernels of the hub that this one loads on every backend.
    kernel_depends: Option<Vec<KernelDepend>>,
    /// Where the kernel is published.
    hub: Option<Hub>,
    /// What holds for CUDA alone.
    cuda: Option<Cuda>,
    /// What holds for AWS Neuron alone.
    neuron: Option<Neuron>,
    /// What holds for Google's TPUs alone.
    tpu: Option<Tpu>,
    /// What holds for Intel's GPUs alone.
    xpu: Option<Xpu>,
}

/// A kernel of the hub, by a version or by a revision.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("oneOf" = [{ "required": ["version"] }, { "required": ["revision"] }]))]
struct KernelDepend {
    /// Its repository on the hub: OWNER/NAME.
    repo_id: RepoId,
    /// Its major version. Exactly one of `version` and `revision` is there.
    version: Option<u64>,
    /// Its branch, tag or commit. Exactly one of `version` and `revision` is there.
    revision: Option<GitRef>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Hub {
    /// The repository on the hub: OWNER/NAME.
    repo_id: Option<RepoId>,
    /// The branch; `v<version>` when absent.
    branch: Option<GitRef>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Cuda {
    /// The oldest CUDA toolkit to build with, included.
    minver: Option<Version>,
    /// The newest CUDA toolkit to build with, included.
    maxver: Option<Version>,
    /// Python packages that the kernel imports on CUDA.
    python_depends: Option<PackagesOfCuda>,
    /// Kernels of the hub that this one loads on CUDA.
    kernel_depends: Option<Vec<KernelDepend>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Neuron {
    /// Python packages that the kernel imports on AWS Neuron.
    python_depends: Option<PackagesOfNeuron>,
    /// Kernels of the hub that this one loads on AWS Neuron.
    kernel_depends: Option<Vec<KernelDepend>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Tpu {
    /// Python packages that the kernel imports on TPUs: there is none that a kernel may depend on yet.
    python_depends: Option<PackagesOfTpu>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Xpu {
    /// Python packages that the kernel imports on Intel GPUs.
    python_depends: Option<PackagesOfXpu>,
    /// Kernels of the hub that this one loads on Intel GPUs.
    kernel_depends: Option<Vec<KernelDepend>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Torch {
    /// Sources and headers of the binding, from the project's folder.
    #[schemars(extend("examples" = [["torch-ext/torch_binding.cpp", "torch-ext/torch_binding.h"]]))]
    src: Option<Vec<RelPath>>,
    /// Include folders, from the project's folder.
    include: Option<Vec<RelPath>>,
    /// Which files of `torch-ext/<module>` are shipped, by what their names end in, without the dot.
    #[schemars(extend("default" = ["py", "pyi"]))]
    pyext: Option<Vec<FileExtension>>,
    /// More flags for the C++ compiler.
    cxx_flags: Option<Vec<String>>,
    /// The oldest torch to build for, included.
    minver: Option<Version>,
    /// The newest torch to build for, included.
    maxver: Option<Version>,
    /// Build for torch's stable interface: one library loads on the torch named here and all later ones. A version for
    /// every backend, or a table with a version for each; backends that it lacks are built for each torch.
    #[schemars(extend("examples" = ["2.11", { "cuda": "2.11" }]))]
    stable_abi: Option<StableAbi>,
}

/// The keys of this section have underscores.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct TorchNoarch {
    /// Which files of `torch-ext/<module>` are shipped, by what their names end in, without the dot.
    #[schemars(extend("default" = ["py", "pyi"]))]
    pyext: Option<Vec<FileExtension>>,
    /// The CUDA capabilities that the kernel is made for.
    cuda_capabilities: Option<Vec<Capability>>,
    /// The AMD architectures that the kernel is made for.
    rocm_archs: Option<Vec<RocmArch>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct TvmFfi {
    /// Sources and headers of the binding, from the project's folder.
    #[schemars(length(min = 1), extend("examples" = [["tvm-ffi-ext/binding.cpp"]]))]
    src: Vec<RelPath>,
    /// Include folders, from the project's folder.
    include: Option<Vec<RelPath>>,
    /// Which files of `tvm-ffi-ext/<module>` are shipped, by what their names end in, without the dot.
    #[schemars(extend("default" = ["py", "pyi"]))]
    pyext: Option<Vec<FileExtension>>,
    /// More flags for the C++ compiler.
    cxx_flags: Option<Vec<String>>,
}

/// Code of one backend.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case", transform = one_backend)]
struct Kernel {
    /// What the code is compiled for.
    backend: CompiledBackend,
    /// What the code includes or links.
    #[schemars(extend("examples" = [["torch"]]))]
    depends: Vec<Dependency>,
    /// Sources and headers, from the project's folder.
    #[schemars(length(min = 1))]
    src: Vec<RelPath>,
    /// Include folders, from the project's folder.
    include: Option<Vec<RelPath>>,
    /// More flags for the C++ compiler.
    cxx_flags: Option<Vec<String>>,
    /// CUDA alone: what to compile for. The toolkit's usual ones when absent.
    #[schemars(extend("examples" = [["8.0", "9.0a", "12.0+PTX"]]))]
    cuda_capabilities: Option<Vec<Capability>>,
    /// CUDA alone: more flags for nvcc.
    #[schemars(extend("examples" = [["-lineinfo"]]))]
    cuda_flags: Option<Vec<String>>,
    /// CUDA alone: below this toolkit, the section is left out.
    cuda_minver: Option<Version>,
    /// ROCm alone: what to compile for. The toolkit's usual ones when absent.
    rocm_archs: Option<Vec<RocmArch>>,
    /// ROCm alone: more flags for hipcc.
    hip_flags: Option<Vec<String>>,
    /// XPU alone: more flags for the SYCL compiler.
    sycl_flags: Option<Vec<String>>,
}

/// The keys that a kernel of one backend alone has.
const OWN_KEYS: [(BackendId, &[&str]); 3] = [
    (BackendId::Cuda, &["cuda-capabilities", "cuda-flags", "cuda-minver"]),
    (BackendId::Rocm, &["rocm-archs", "hip-flags"]),
    (BackendId::Xpu, &["sycl-flags"]),
];

/// Refuses the keys of another backend.
fn one_backend(schema: &mut Schema) {
    let refusals: Vec<Value> = OWN_KEYS
        .iter()
        .map(|(backend, keys)| {
            let refused: serde_json::Map<String, Value> =
                keys.iter().map(|key| ((*key).to_owned(), Value::Bool(false))).collect();
            json!({
                "if": { "required": ["backend"], "properties": { "backend": { "not": { "const": backend.as_str() } } } },
                "then": { "properties": refused },
            })
        })
        .collect();
    schema.insert("allOf".to_owned(), Value::Array(refusals));
}
