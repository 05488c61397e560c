//! The xpu backend: Intel's C++ compiler, for everything.
//!
//! Owns: the targets of device code, SYCL's flags for compiling and linking, oneDNN.
//! Never: looks for a compiler.
//!
//! The link is the compiler's too: it compiles the device code of all objects to machine code there. Flags and targets
//! are those of the format's own builder (huggingface/kernels, templates/torch/preamble.cmake).

use crate::kit::{DeviceKit, Toolchain, XpuKit};
use crate::plan::CommandLine;
use crate::spec::build::Kernel;
use crate::units::BackendId;
use crate::variant::Toolkit;

use super::host_command::{clang_command, values};
use super::interface::{Backend, Link};
use super::link::framework_libraries;
use super::source::Source;

/// Intel's compiler.
#[derive(Debug)]
pub struct Xpu;

/// Flags of every source with device code: arithmetic as IEEE 754 has it, which is what PyTorch computes with.
const DEVICE_FLAGS: &[&str] = &[
    "-fsycl",
    "-fhonor-nans",
    "-fhonor-infinities",
    "-fno-associative-math",
    "-fno-approx-func",
    "-foffload-fp32-prec-div",
    "-foffload-fp32-prec-sqrt",
    "-fno-sycl-instrument-device-code",
    "--offload-compress",
];

/// What the link of device code is told.
const LINK_FLAGS: &[&str] =
    &["-fsycl", "--offload-compress", "-foffload-fp32-prec-div", "-foffload-fp32-prec-sqrt"];

/// GPUs that machine code is made for: Data Center GPU Max, the integrated ones of Core Ultra, Data Center GPU Flex.
const DEVICES: &str = "pvc,xe-lpg,ats-m150";

/// Options of the compiler for those.
const DEVICE_OPTIONS: &str = "-cl-intel-enable-auto-large-GRF-mode -cl-poison-unsupported-fp64-kernels \
     -cl-intel-greater-than-4GB-buffer-required";

impl Backend for Xpu {
    fn id(&self) -> BackendId {
        BackendId::Xpu
    }

    fn compile(&self, source: &Source<'_>) -> CommandLine {
        let cxx_flags = source.kernel.iter().flat_map(|kernel| values(&kernel.cxx_flags));
        if source.path.extension() == Some("c") {
            return self.bind(source, cxx_flags.collect());
        }
        let sycl_flags = source.kernel.iter().flat_map(|kernel| values(&kernel.sycl_flags));
        let device = DEVICE_FLAGS.iter().map(|flag| (*flag).to_owned()).chain([targets(source.kit)]);
        clang_command(&compiler(source.kit), source, cxx_flags.chain(device).chain(sycl_flags))
    }

    fn macros(&self) -> &'static [&'static str] {
        &["XPU_KERNEL", "USE_XPU"]
    }

    fn torch_libraries(&self) -> &'static [&'static str] {
        &["-lc10", "-ltorch_cpu", "-ltorch", "-lc10_xpu", "-ltorch_xpu"]
    }

    fn toolkit_libraries(&self, kit: &Toolchain) -> Vec<String> {
        let library = kit_of(kit).and_then(|xpu| xpu.onednn.as_ref());
        library.iter().map(|library| library.display().to_string()).collect()
    }

    fn capabilities(&self, _kernel: &Kernel, _toolkit: Toolkit) -> Vec<String> {
        Vec::new()
    }

    /// The binding too is compiled by Intel's compiler: torch's headers for XPU include SYCL's.
    fn bind(&self, source: &Source<'_>, flags: Vec<String>) -> CommandLine {
        clang_command(&compiler(source.kit), source, flags)
    }

    /// The compiler adds the libraries of SYCL itself. There is no portable link: which of its own libraries the compiler
    /// adds depends on the code.
    fn link(&self, link: &Link<'_>) -> CommandLine {
        let kit = link.kit;
        let ahead = kit_of(kit).is_some_and(|xpu| xpu.ahead_of_time).then(|| {
            let options = format!("-device {DEVICES} -options '{DEVICE_OPTIONS}'");
            ["-Xsycl-target-backend=spir64_gen".to_owned(), options]
        });
        CommandLine::new(compiler(kit))
            .args(["-shared", "-o", link.output])
            .args(link.objects.iter().cloned())
            .args(LINK_FLAGS.iter().copied())
            .arg(targets(kit))
            .args(ahead.into_iter().flatten())
            .arg("-Wl,--no-as-needed")
            .args(framework_libraries(self, kit))
            .arg("-Wl,--as-needed")
            .args(self.toolkit_libraries(kit))
            .args([
                "-Wl,--exclude-libs,ALL",
                "-Wl,--build-id=none",
                "-Wl,-z,relro",
                "-Wl,-z,noexecstack",
                "-s",
            ])
    }
}

fn kit_of(kit: &Toolchain) -> Option<&XpuKit> {
    match &kit.device {
        Some(DeviceKit::Xpu(xpu)) => Some(xpu),
        _ => None,
    }
}

fn compiler(kit: &Toolchain) -> std::path::PathBuf {
    kit_of(kit).map_or_else(|| "icpx".into(), |xpu| xpu.icpx.clone())
}

/// Machine code for the GPUs of [`DEVICES`] where it can be made, and code that every driver compiles.
fn targets(kit: &Toolchain) -> String {
    let ahead = kit_of(kit).is_some_and(|xpu| xpu.ahead_of_time);
    format!("-fsycl-targets={}", if ahead { "spir64_gen,spir64" } else { "spir64" })
}
