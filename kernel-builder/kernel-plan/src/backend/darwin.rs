//! What macOS does otherwise than Linux: its linker, and the release that a library is made for.
//!
//! Owns: the link to a Mach-O bundle. Never: knows what a kernel is.

use crate::plan::CommandLine;
use crate::variant::Toolkit;

use super::link::framework_libraries;
use super::{Backend, Link};

/// The oldest macOS that a library is made for, as the format's own builder has it (huggingface/kernels,
/// templates/torch/preamble.cmake); the client takes builds for metal on macOS 26 and later alone.
const fn oldest(toolkit: Toolkit) -> &'static str {
    match toolkit {
        Toolkit::Metal => "26.0",
        _ => "15.0",
    }
}

/// The flag that says so to a compiler and to the linker, which must agree.
pub(super) fn oldest_flag(toolkit: Toolkit) -> String {
    format!("-mmacosx-version-min={}", oldest(toolkit))
}

/// Links a bundle, which is what Python loads on macOS.
///
/// It has no install name, and no search path: torch's libraries are named as they name themselves, `@rpath/...`, and
/// are in the process before any extension is. What Python defines is looked up when the bundle is loaded. Nothing but
/// the module's entry point is exported.
pub(super) fn link_command(
    backend: &dyn Backend,
    toolkit: Toolkit,
    link: &Link<'_>,
    frameworks: &[&str],
) -> CommandLine {
    CommandLine::new(&link.kit.cxx.program)
        .args(["-bundle", "-undefined", "dynamic_lookup"])
        .arg(oldest_flag(toolkit))
        .args(["-o", link.output])
        .args(link.objects.iter().cloned())
        .args(framework_libraries(backend, link.kit))
        .args(backend.toolkit_libraries(link.kit))
        .args(frameworks.iter().flat_map(|name| ["-framework", *name]))
        .args(["-Wl,-dead_strip", "-Wl,-x", "-Wl,-exported_symbol,_PyInit_*"])
}
