//! The rocm backend: hipcc for `.cu` and `.hip`, the host compiler for the rest.
//!
//! Owns: default architectures, ROCm's macros, the translation of CUDA sources to HIP as a step before the units
//! (docs/decisions/0013). Never: translates a source itself, compiles for the GPU that happens to be present.

use crate::kit::{DeviceKit, RocmKit, Toolchain};
use crate::plan::CommandLine;
use crate::spec::build::Kernel;
use crate::spec::hipcc;
use crate::units::{BackendId, RelPath, Version};
use crate::variant::Toolkit;

use super::host_command::{clang_command, host_command, values};
use super::interface::{Backend, Link};
use super::link::link_command;
use super::source::{Source, Translated};

/// AMD's compiler.
#[derive(Debug)]
pub struct Rocm;

/// Architectures of a kernel section that names none, by the first ROCm release that has them, as the format's own
/// builder has them (huggingface/kernels, templates/torch/preamble.cmake).
const DEFAULTS: &[(Version, &[&str])] = &[(
    Version::new(7, 0),
    &[
        "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1200",
        "gfx1201",
    ],
)];

impl Backend for Rocm {
    fn id(&self) -> BackendId {
        BackendId::Rocm
    }

    fn compile(&self, source: &Source<'_>) -> CommandLine {
        if !matches!(source.path.extension(), Some("cu" | "hip")) {
            return host_command(source, source.kernel.iter().flat_map(|kernel| values(&kernel.cxx_flags)));
        }
        let hipcc = kit_of(source.kit).map_or_else(|| "hipcc".into(), |rocm| rocm.hipcc.clone());
        let archs = source.archs(|kernel| self.capabilities(kernel, source.toolkit));
        let archs = archs.iter().map(|arch| format!("--offload-arch={arch}"));
        let flags = source.kernel.iter().flat_map(|kernel| values(&kernel.hip_flags));
        // Device code of an object is complete: nothing is left for a device linker. The compiler's own name for a unit
        // follows from its absolute path and would differ from folder to folder.
        let fixed = ["-x".to_owned(), "hip".to_owned(), "-fno-gpu-rdc".to_owned()];
        let name = format!("-cuid={:016x}", fingerprint(source.path.as_str()));
        let extra = fixed.into_iter().chain([name]).chain(archs).chain(flags);
        clang_command(&hipcc, source, extra)
    }

    fn macros(&self) -> &'static [&'static str] {
        // ROCM_KERNEL is the format's; the others are those that PyTorch compiles extensions with
        // (torch/utils/cpp_extension.py, COMMON_HIP_FLAGS).
        &["ROCM_KERNEL", "USE_ROCM=1", "__HIP_PLATFORM_AMD__=1", "HIPBLAS_V2"]
    }

    fn torch_libraries(&self) -> &'static [&'static str] {
        &["-lc10", "-ltorch_cpu", "-ltorch", "-lc10_hip", "-ltorch_hip"]
    }

    /// HIP's runtime is not named: PyTorch's wheels bring it as `libamdhip64.so` and ROCm installs it as
    /// `libamdhip64.so.7`, and a process with both has two. libc10_hip.so needs the one that is right, and what it needs
    /// is searched for the symbols of whoever needs it.
    fn toolkit_libraries(&self, kit: &Toolchain) -> Vec<String> {
        let builtins = kit_of(kit).and_then(|rocm| rocm.builtins.as_ref());
        builtins.iter().map(|library| library.display().to_string()).collect()
    }

    fn capabilities(&self, kernel: &Kernel, toolkit: Toolkit) -> Vec<String> {
        let Toolkit::Rocm(version) = toolkit else { return Vec::new() };
        if !kernel.rocm_archs.is_empty() {
            // What the compiler has lost is left out; a rule tells so, and refuses a kernel of which nothing is left.
            let listed = kernel.rocm_archs.iter().filter(|arch| hipcc::compiles(&arch.value));
            return listed.map(|arch| arch.value.to_string()).collect();
        }
        let row = DEFAULTS.iter().find(|(since, _)| version >= *since);
        row.iter().flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned())).collect()
    }

    fn endings(&self) -> &'static [&'static str] {
        &["cu", "hip"]
    }

    fn translated(&self, path: &RelPath, kit: &Toolchain) -> Option<Translated> {
        let root = copy_of(kit)?;
        // Beside the copy of the source, where its relative includes lead to the same files.
        (path.extension() == Some("cu")).then(|| Translated { file: format!("{root}/{path}.hip"), root })
    }

    fn prepare(&self, sources: &[&RelPath], include: &[RelPath], kit: &Toolchain) -> Option<CommandLine> {
        let hipify = &kit_of(kit)?.hipify;
        if sources.is_empty() {
            return None;
        }
        let include = include.iter().flat_map(|folder| ["--include".to_owned(), folder.to_string()]);
        let line = CommandLine::new(&hipify.python).arg("-I").path(&hipify.script);
        let line = line.arg("--package").path(&hipify.package).args(["--to".to_owned(), copy_of(kit)?]);
        Some(line.args(include).args(sources.iter().map(ToString::to_string)))
    }

    fn link(&self, link: &Link<'_>) -> CommandLine {
        link_command(self, link)
    }
}

fn kit_of(kit: &Toolchain) -> Option<&RocmKit> {
    match &kit.device {
        Some(DeviceKit::Rocm(rocm)) => Some(rocm),
        _ => None,
    }
}

/// 64 bits of a path (Fowler, Noll and Vo's hash 1a): a name that differs between the units of a library.
fn fingerprint(path: &str) -> u64 {
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Where the translated copy of the project lies: one for every release of PyTorch, whose translator it is.
fn copy_of(kit: &Toolchain) -> Option<String> {
    kit_of(kit).map(|rocm| format!(".kernelwright/hipify/torch-{}", rocm.hipify.torch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::RocmArch;

    #[test]
    fn units_have_names_of_their_own() {
        // The hash's published test vector.
        assert_eq!(fingerprint("foobar"), 0x8594_4171_f739_67e8);
        assert_ne!(fingerprint("a/norm.cu"), fingerprint("b/norm.cu"));
    }

    #[test]
    fn every_default_is_an_architecture() {
        for name in DEFAULTS.iter().flat_map(|(_, names)| *names) {
            assert!(name.parse::<RocmArch>().is_ok(), "{name}");
        }
    }
}
