//! The cuda backend: nvcc for `.cu`, the host compiler for the rest.
//!
//! Owns: `-gencode` pairs, default capabilities of a toolkit, CUDA's libraries.
//! Never: compiles for the GPU that happens to be present.

use std::path::PathBuf;
use std::str::FromStr;

use crate::kit::Toolchain;
use crate::plan::CommandLine;
use crate::spec::build::Kernel;
use crate::spec::nvcc;
use crate::units::{BackendId, Capability, Version};
use crate::variant::Toolkit;

use super::host_command::{SOURCE_DATE, host_command, host_flags};
use super::interface::{Backend, Link};
use super::link::link_command;
use super::source::Source;

/// NVIDIA's compiler.
#[derive(Debug)]
pub struct Cuda;

/// Capabilities of a kernel section that names none, as the format's own builder has them
/// (huggingface/kernels, templates/torch/preamble.cmake).
const DEFAULTS: &[(Version, &[&str])] = &[
    (Version::new(13, 0), &["7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "11.0", "12.0", "12.1+PTX"]),
    (
        Version::new(12, 8),
        &["7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.1", "12.0+PTX"],
    ),
    (Version::new(0, 0), &["7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0+PTX"]),
];

impl Backend for Cuda {
    fn id(&self) -> BackendId {
        BackendId::Cuda
    }

    fn compile(&self, source: &Source<'_>) -> CommandLine {
        let kernel_flags = |flags: &[crate::spec::Spanned<String>]| {
            flags.iter().map(|flag| flag.value.clone()).collect::<Vec<_>>()
        };
        if source.path.extension() != Some("cu") {
            return host_command(
                source,
                source.kernel.map(|kernel| kernel_flags(&kernel.cxx_flags)).unwrap_or_default(),
            );
        }
        let nvcc = source.kit.cuda.as_ref().map(|cuda| cuda.nvcc.clone()).unwrap_or_else(|| "nvcc".into());
        let mut capabilities = source.archs(|kernel| capabilities_of(kernel, source.toolkit));
        capabilities.retain(|capability| source.kit.cuda.iter().all(|cuda| cuda.reaches(*capability)));
        // Not the section's cxx-flags: they are for C++ sources, as in the format's own builder, and what one of nvcc's
        // passes alone sees would make it disagree with the others.
        let host = host_flags(source);
        CommandLine::new(nvcc)
            .args(["-ccbin".to_owned(), source.kit.cxx.program.display().to_string()])
            .args([format!("-std={}", source.standard).as_str(), "-O3", "--expt-relaxed-constexpr"])
            .args(host.iter().map(|flag| for_host_compiler(flag)))
            .args(source.common.iter().cloned())
            .args(capabilities.iter().flat_map(|capability| ["-gencode".to_owned(), gencode(*capability)]))
            .args(source.kernel.map(|kernel| kernel_flags(&kernel.cuda_flags)).unwrap_or_default())
            // Temporary names follow from the object's name, not from the process id, which would end up in symbols.
            .arg("-objtemp")
            .args(["-MD", "-MF", source.depfile, "-c", source.path.as_str(), "-o", source.object])
            .env(SOURCE_DATE.0, SOURCE_DATE.1)
    }

    fn macros(&self) -> &'static [&'static str] {
        &["CUDA_KERNEL", "USE_CUDA=1"]
    }

    fn torch_libraries(&self) -> &'static [&'static str] {
        &["-lc10", "-ltorch_cpu", "-ltorch", "-lc10_cuda", "-ltorch_cuda"]
    }

    fn toolkit_libraries(&self, kit: &Toolchain) -> Vec<String> {
        kit.cuda.iter().map(|cuda| cuda.cudart.display().to_string()).collect()
    }

    fn capabilities(&self, kernel: &Kernel, toolkit: Toolkit) -> Vec<String> {
        capabilities_of(kernel, toolkit).iter().map(ToString::to_string).collect()
    }

    fn endings(&self) -> &'static [&'static str] {
        &["cu"]
    }

    fn include<'k>(&self, kit: &'k Toolchain) -> &'k [PathBuf] {
        kit.cuda.as_ref().map(|cuda| cuda.include.as_slice()).unwrap_or_default()
    }

    fn link(&self, link: &Link<'_>) -> CommandLine {
        link_command(self, link)
    }
}

/// A flag as nvcc hands it on: it does so through a shell, by quotation marks alone.
fn for_host_compiler(flag: &str) -> String {
    if flag.contains(char::is_whitespace) {
        format!("-Xcompiler=\"{flag}\"")
    } else {
        format!("-Xcompiler={flag}")
    }
}

fn capabilities_of(kernel: &Kernel, toolkit: Toolkit) -> Vec<Capability> {
    let Toolkit::Cuda(version) = toolkit else { return Vec::new() };
    if !kernel.cuda_capabilities.is_empty() {
        // What this release does not know is left out; a rule tells so, and refuses a kernel of which nothing is left.
        let listed = kernel.cuda_capabilities.iter().map(|capability| capability.value);
        return listed.filter(|capability| nvcc::compiles(*capability, version)).collect();
    }
    let row = DEFAULTS.iter().find(|(since, _)| version >= *since);
    row.iter()
        .flat_map(|(_, names)| names.iter().filter_map(|name| Capability::from_str(name).ok()))
        .collect()
}

/// `9.0a` → `arch=compute_90a,code=sm_90a`; `12.0+PTX` adds the virtual architecture for later GPUs.
fn gencode(capability: Capability) -> String {
    let digits = capability.digits();
    if capability.ptx {
        format!("arch=compute_{digits},code=[sm_{digits},compute_{digits}]")
    } else {
        format!("arch=compute_{digits},code=sm_{digits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_blank_stays_one_word() {
        assert_eq!(for_host_compiler("-fPIC"), "-Xcompiler=-fPIC");
        assert_eq!(for_host_compiler("-fm=/a b=/c"), "-Xcompiler=\"-fm=/a b=/c\"");
    }

    #[test]
    fn gencode_pairs() {
        let of = |text: &str| gencode(text.parse().unwrap());
        assert_eq!(of("9.0a"), "arch=compute_90a,code=sm_90a");
        assert_eq!(of("12.0+PTX"), "arch=compute_120,code=[sm_120,compute_120]");
    }

    #[test]
    fn every_default_is_compiled_for_by_its_release() {
        // No variant is built with an older one.
        let oldest = Version::new(12, 6);
        for (since, names) in DEFAULTS {
            for name in *names {
                assert!(nvcc::compiles(name.parse().unwrap(), oldest.max(*since)), "{name}");
            }
        }
    }
}
