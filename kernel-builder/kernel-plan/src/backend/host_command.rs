//! The commands of host compilers.
//!
//! Owns: the flags that every object gets, for any place in memory and without the place of tools.
//! Never: knows a flag of a backend's own compiler.

use std::path::{Path, PathBuf};

use crate::kit::{DeviceKit, FrameworkKit, LibraryKit, Toolchain};
use crate::plan::CommandLine;
use crate::spec::Spanned;
use crate::spec::build::Kernel;
use crate::variant::{Os, Toolkit};

use super::source::Source;

/// Flags of every host compilation: code for any place in memory, nothing visible but what is exported on purpose.
const HOST_FLAGS: &[&str] =
    &["-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-fno-gnu-unique"];

/// The same without what Clang does not know; its symbols are never unique.
const CLANG_FLAGS: &[&str] = &["-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"];

/// What `__DATE__` and `__TIME__` are made from, by every compiler that a build can be repeated with (the specification
/// of SOURCE_DATE_EPOCH, reproducible-builds.org): a build says nothing about when it was made.
pub(super) const SOURCE_DATE: (&str, &str) = ("SOURCE_DATE_EPOCH", "0");

/// [`HOST_FLAGS`] and what keeps the place of tools out of the object: folders of headers have names of their own in it
/// (`__FILE__`, debugging information), and names that the compiler draws follow from the source's.
pub(super) fn host_flags(source: &Source<'_>) -> Vec<String> {
    flags_for(source, source.kit.cxx.is_clang())
}

/// The same for GCC, or for a Clang.
fn flags_for(source: &Source<'_>, clang: bool) -> Vec<String> {
    let kit = source.kit;
    let framework = match kit.framework {
        FrameworkKit::Torch(_) => "torch",
        FrameworkKit::TvmFfi(_) => "tvm-ffi",
    };
    let mut folders = vec![(&kit.extension_include, "/kernelwright/include".to_owned())];
    let libraries = source.kernel.into_iter().flat_map(|kernel| libraries_of(kernel, kit));
    let libraries = libraries.map(|library| (library.name.as_str(), library.include.as_slice()));
    for (name, include) in std::iter::once((framework, kit.framework.include())).chain(libraries) {
        // A folder below another one is mapped with it.
        let below =
            |folder: &PathBuf| include.iter().any(|other| other != folder && folder.starts_with(other));
        for (count, folder) in include.iter().filter(|folder| !below(folder)).enumerate() {
            let number = if count == 0 { String::new() } else { count.to_string() };
            folders.push((folder, format!("/{name}/include{number}")));
        }
    }
    folders.extend(kit.cuda.iter().map(|cuda| (&cuda.root, "/cuda".to_owned())));
    folders
        .extend(kit.device.iter().flat_map(DeviceKit::include).map(|folder| (folder, "/device".to_owned())));
    let known = if clang { CLANG_FLAGS } else { HOST_FLAGS };
    let mut flags: Vec<String> = known.iter().map(|flag| (*flag).to_owned()).collect();
    for (folder, name) in folders {
        let folder = folder.display().to_string();
        // Neither sign can stand in the compilers' form of a map.
        if !folder.contains(['=', ',']) {
            flags.push(format!("-ffile-prefix-map={folder}={name}"));
        }
    }
    if !clang {
        flags.push(format!("-frandom-seed={}", source.path.as_str()));
    }
    flags.extend((source.os == Os::Darwin).then(|| oldest_flag(source.toolkit)));
    flags
}

/// The host compiler's command for a C or C++ source, of the binding or of a kernel.
pub(super) fn host_command(source: &Source<'_>, extra: impl IntoIterator<Item = String>) -> CommandLine {
    command(&source.kit.cxx.program, source, host_flags(source), extra)
}

/// The same of another compiler, which is a Clang.
pub(super) fn clang_command(
    program: &Path,
    source: &Source<'_>,
    extra: impl IntoIterator<Item = String>,
) -> CommandLine {
    command(program, source, flags_for(source, true), extra)
}

fn command(
    program: &Path,
    source: &Source<'_>,
    flags: Vec<String>,
    extra: impl IntoIterator<Item = String>,
) -> CommandLine {
    // A C++ compiler takes C for C++ otherwise.
    let is_c = source.path.extension() == Some("c");
    let language =
        if is_c { vec!["-x".to_owned(), "c".to_owned()] } else { vec![format!("-std={}", source.standard)] };
    CommandLine::new(program)
        .args(language)
        .args(["-O3"])
        .args(flags.into_iter().filter(|flag| !(is_c && flag.contains("inlines"))))
        .args(source.common.iter().cloned())
        .args(extra)
        .args(["-MD", "-MF", source.depfile, "-c", source.file, "-o", source.object])
        .env(SOURCE_DATE.0, SOURCE_DATE.1)
}

/// Flags of a list in build.toml.
pub(super) fn values(flags: &[Spanned<String>]) -> impl Iterator<Item = String> {
    flags.iter().map(|flag| flag.value.clone())
}

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

/// The header libraries that a kernel depends on.
pub(super) fn libraries_of<'a>(
    kernel: &'a Kernel,
    kit: &'a Toolchain,
) -> impl Iterator<Item = &'a LibraryKit> {
    let listed = |library: &&LibraryKit| {
        kernel.depends.iter().any(|dependency| dependency.value.as_str() == library.name)
    };
    kit.libraries.iter().filter(listed)
}
