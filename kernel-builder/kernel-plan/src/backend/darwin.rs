//! What macOS does otherwise than Linux: its linker, and the release that a library is made for.
//!
//! Owns: the link to a Mach-O bundle. Never: knows what a kernel is.

use crate::plan::CommandLine;
use crate::variant::Toolkit;

use super::host_command::oldest_flag;
use super::interface::{Backend, Link};
use super::link::framework_libraries;

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
