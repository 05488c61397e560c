//! The metal backend: shaders through Apple's Metal compiler, Objective-C++ and C++ through the host's.
//!
//! Owns: the commands of `.metal`, how their library gets into the extension, Apple's frameworks.
//! Never: looks for Xcode.
//!
//! Each shader becomes a unit of its own (`.air`). Before the link they are put into one library, which an assembler
//! source includes as bytes. The header that gives them to a kernel only declares these bytes, so the sources that use
//! it are not compiled again when a shader changes.

use std::path::Path;

use crate::kit::{DeviceKit, MetalKit, Toolchain};
use crate::plan::{CommandLine, Step, Unit};
use crate::spec::build::Kernel;
use crate::units::{BackendId, RelPath};
use crate::variant::Toolkit;

use super::darwin;
use super::host_command::{host_command, oldest_flag, values};
use super::interface::{Backend, Link};
use super::source::Source;

/// Apple's compiler.
#[derive(Debug)]
pub struct Metal;

/// The ending of a shader's source.
const SHADER: &str = "metal";
/// The ending of a compiled shader.
const AIR: &str = "air";
/// Our header that gives a kernel its shaders, and the namespace in it, under the names that kernels know.
const EMBEDDED: [&str; 2] = [
    "-DEMBEDDED_METALLIB_HEADER=\"kernelwright_metallib.h\"",
    "-DEMBEDDED_METALLIB_NAMESPACE=kernelwright_metallib",
];

impl Backend for Metal {
    fn id(&self) -> BackendId {
        BackendId::Metal
    }

    fn compile(&self, source: &Source<'_>) -> CommandLine {
        if source.path.extension() != Some(SHADER) {
            return host_command(source, source.kernel.iter().flat_map(|kernel| values(&kernel.cxx_flags)));
        }
        let include = source.kernel.iter().flat_map(|kernel| &kernel.include);
        tool(source.kit, "metal")
            // What the format's own builder gives (huggingface/kernels, templates/torch/metal/compile-metal.cmake).
            .args(["-std=metal4.0", "-O2"])
            .arg(oldest_flag(source.toolkit))
            .args(include.map(|folder| format!("-I{}", folder.as_str())))
            .args(["-MMD", "-MF", source.depfile, "-c", source.file, "-o", source.object])
    }

    fn macros(&self) -> &'static [&'static str] {
        &["METAL_KERNEL"]
    }

    fn torch_libraries(&self) -> &'static [&'static str] {
        &["-lc10", "-ltorch_cpu", "-ltorch"]
    }

    fn toolkit_libraries(&self, _kit: &Toolchain) -> Vec<String> {
        Vec::new()
    }

    fn capabilities(&self, _kernel: &Kernel, _toolkit: Toolkit) -> Vec<String> {
        Vec::new()
    }

    fn endings(&self) -> &'static [&'static str] {
        &["mm", "m", SHADER]
    }

    fn object(&self, path: &RelPath) -> &'static str {
        if path.extension() == Some(SHADER) { AIR } else { "o" }
    }

    fn embedding(&self, sources: &[&RelPath]) -> Vec<String> {
        let shaders = sources.iter().any(|path| path.extension() == Some(SHADER));
        if shaders { EMBEDDED.map(str::to_owned).to_vec() } else { Vec::new() }
    }

    fn before_link(&self, units: &[Unit], stem: &str, kit: &Toolchain) -> Vec<Step> {
        let compiled: Vec<&str> = units
            .iter()
            .map(|unit| unit.object.as_str())
            .filter(|object| Path::new(object).extension().is_some_and(|ending| ending == AIR))
            .collect();
        let embedder = kit_of(kit).map(|metal| &metal.embedder);
        let (Some(embedder), false) = (embedder, compiled.is_empty()) else { return Vec::new() };
        let (library, object) = (format!("{stem}.metallib"), format!("{stem}.o"));
        let put_together = tool(kit, "metallib").args(compiled).args(["-o", &library]);
        let embed = CommandLine::new(&kit.cxx.program)
            .arg(oldest_flag(Toolkit::Metal))
            .args(["-x", "assembler-with-cpp", &format!("-DKERNELWRIGHT_METALLIB=\"{library}\"")])
            .arg("-c")
            .path(embedder)
            .args(["-o", &object]);
        vec![
            Step { name: "metallib".to_owned(), command: put_together, output: library },
            Step { name: "embed".to_owned(), command: embed, output: object },
        ]
    }

    fn link(&self, link: &Link<'_>) -> CommandLine {
        darwin::link_command(self, Toolkit::Metal, link, &["Foundation", "Metal", "QuartzCore"])
    }
}

/// A program of the Metal toolchain, which Xcode finds.
fn tool(kit: &Toolchain, name: &str) -> CommandLine {
    let xcrun = kit_of(kit).map_or_else(|| "xcrun".into(), |metal| metal.xcrun.clone());
    CommandLine::new(xcrun).args(["-sdk", "macosx", name])
}

fn kit_of(kit: &Toolchain) -> Option<&MetalKit> {
    match &kit.device {
        Some(DeviceKit::Metal(metal)) => Some(metal),
        _ => None,
    }
}
