//! Links the objects of a variant to a library for Linux.
//!
//! Owns: the order of libraries, the recipe of a portable link. Never: knows what a kernel is.

use std::path::Path;

use crate::kit::{FrameworkKit, PortableKit, Toolchain};
use crate::plan::CommandLine;

use super::interface::{Backend, Link};

/// The framework's libraries as a linker is told of them: the folder, then their names.
pub(super) fn framework_libraries(backend: &dyn Backend, kit: &Toolchain) -> Vec<String> {
    let names = match kit.framework {
        FrameworkKit::Torch(_) => backend.torch_libraries(),
        FrameworkKit::TvmFfi(_) => &["-ltvm_ffi"],
    };
    let names = names.iter().map(|name| (*name).to_owned());
    std::iter::once(format!("-L{}", kit.framework.stubs().display())).chain(names).collect()
}

/// Links the objects; the framework's libraries are named through empty stand-ins that carry nothing but their names.
///
/// With a portable kit the C and C++ libraries are named by full path as well. Their order is the recipe: what the old
/// C++ library has is found there first and stays shared, exceptions and locales included; the static one behind it
/// gives the rest, hidden.
pub(super) fn link_command(backend: &dyn Backend, link: &Link<'_>) -> CommandLine {
    let kit = link.kit;
    let (before, after) = kit.portable.as_ref().map(system_libraries).unwrap_or_default();
    CommandLine::new(&kit.cxx.program)
        .args(["-shared", "-o", link.output])
        .args(before)
        .args(link.objects.iter().cloned())
        .arg("-Wl,--no-as-needed")
        .args(framework_libraries(backend, kit))
        .args(backend.toolkit_libraries(kit))
        .arg("-Wl,--as-needed")
        .args(after)
        .args([
            "-Wl,--exclude-libs,ALL",
            "-Wl,--gc-sections",
            "-Wl,--build-id=none",
            "-Wl,-z,relro",
            "-Wl,-z,noexecstack",
            "-s",
        ])
}

/// What stands before and after the objects when nothing is taken from the compiler's own defaults.
fn system_libraries(kit: &PortableKit) -> (Vec<String>, Vec<String>) {
    let text = |path: &Path| path.display().to_string();
    let stub = |name: &str| text(&kit.stubs.join(name));
    let before = vec!["-nostdlib".to_owned(), text(&kit.crti), text(&kit.crtbegin)];
    let after = vec![
        // Twice: before the C++ library, whose own way to start std::cout needs a newer one, and behind it.
        text(&kit.shim),
        stub("libstdc++.so.6"),
        text(&kit.libstdcxx),
        text(&kit.shim),
        stub("libm.so.6"),
        stub("libmvec.so.1"),
        stub("libgcc_s.so.1"),
        text(&kit.libgcc),
        stub("libpthread.so.0"),
        stub("libdl.so.2"),
        stub("librt.so.1"),
        stub("libc.so.6"),
        text(&kit.libc_nonshared),
        stub(&kit.loader),
        text(&kit.crtend),
        text(&kit.crtn),
        // Nothing but the module's entry point is visible: operators are reached through torch's registry, and a
        // symbol that two extensions export would be shared between them.
        format!("-Wl,--version-script={}", text(&kit.exports)),
        "-Wl,--hash-style=gnu".to_owned(),
    ];
    (before, after)
}
