//! What each backend means: its compiler lines, its libraries, its macros.
//!
//! Owns: the decision which command builds which source of a variant.
//! Never: runs a command, looks whether a file exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::kit::{FrameworkKit, LibraryKit, PortableKit, Toolchain};
use crate::plan::{CommandLine, Unit, VariantPlan, placeholder_name};
use crate::spec::Spanned;
use crate::spec::build::{self, BuildSpec, Kernel};
use crate::units::{BackendId, RelPath, Version};
use crate::variant::{Abi, Framework, Noarch, Toolkit, Variant, compiled_with};

mod cpu;
mod cuda;
mod sections;

pub use cpu::Cpu;
pub use cuda::Cuda;

/// One backend. Adding one is one file here and one line in [`BACKENDS`].
pub trait Backend: Sync + std::fmt::Debug {
    /// Which backend of build.toml this is.
    fn id(&self) -> BackendId;

    /// The command that compiles one source of a kernel section to an object.
    fn compile(&self, source: &Source<'_>) -> CommandLine;

    /// Macros that host code sees, e.g. `CPU_KERNEL`.
    fn macros(&self) -> &'static [&'static str];

    /// PyTorch's libraries that an extension names as needed, in link order, e.g. `-lc10`.
    fn torch_libraries(&self) -> &'static [&'static str];

    /// The toolkit's libraries, linked behind the framework's.
    fn toolkit_libraries(&self, kit: &Toolchain) -> Vec<String>;

    /// Capabilities that a kernel section is compiled for, as written in build.toml; empty where there are none.
    fn capabilities(&self, kernel: &Kernel, toolkit: Toolkit) -> Vec<String>;
}

/// Every backend that can be built, in the order in which build.toml's documentation lists them.
pub const BACKENDS: &[&dyn Backend] = &[&Cpu, &Cuda];

/// One source with all that decides its command.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file, below the project's folder.
    pub path: &'a RelPath,
    /// The kernel section that it belongs to; absent for a source of the binding.
    pub kernel: Option<&'a Kernel>,
    /// Flags that every C++ command of the variant shares: macros, include folders.
    pub common: &'a [String],
    /// Language standard, e.g. `c++17`.
    pub standard: &'static str,
    /// Object file, relative to the project.
    pub object: &'a str,
    /// Dependency file, relative to the project.
    pub depfile: &'a str,
    /// The compilers.
    pub kit: &'a Toolchain,
    /// The toolkit of the variant.
    pub toolkit: Toolkit,
}

/// The unique name of an extension module and who needs to know it.
///
/// The name changes with every source, so a unit that does not use it must not see it: it would be compiled again for
/// nothing.
#[derive(Debug, Clone, Copy)]
pub struct Naming<'a> {
    /// `_<module>_<backend>_<digest>`.
    pub extension: &'a str,
    /// Sources that use the name, by themselves or through a header.
    pub users: &'a BTreeSet<RelPath>,
}

/// Flags of every host compilation: code for any place in memory, nothing visible but what is exported on purpose.
pub(crate) const HOST_FLAGS: &[&str] =
    &["-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-fno-gnu-unique"];

/// What `__DATE__` and `__TIME__` are made from, by every compiler that a build can be repeated with (the specification
/// of SOURCE_DATE_EPOCH, reproducible-builds.org): a build says nothing about when it was made.
pub(crate) const SOURCE_DATE: (&str, &str) = ("SOURCE_DATE_EPOCH", "0");

/// [`HOST_FLAGS`] and what keeps the place of tools out of the object: folders of headers have names of their own in it
/// (`__FILE__`, debugging information), and names that the compiler draws follow from the source's.
pub(crate) fn host_flags(source: &Source<'_>) -> Vec<String> {
    let kit = source.kit;
    let framework = match kit.framework {
        FrameworkKit::Torch(_) => "torch",
        FrameworkKit::TvmFfi(_) => "tvm-ffi",
    };
    let mut folders = vec![(&kit.extension_include, "/kernelwright/include".to_owned())];
    let libraries = kit.libraries.iter().map(|library| (library.name.as_str(), library.include.as_slice()));
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
    let mut flags: Vec<String> = HOST_FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    for (folder, name) in folders {
        let folder = folder.display().to_string();
        // Neither sign can stand in the compilers' form of a map.
        if !folder.contains(['=', ',']) {
            flags.push(format!("-ffile-prefix-map={folder}={name}"));
        }
    }
    flags.push(format!("-frandom-seed={}", source.path.as_str()));
    flags
}

/// The host compiler's command for a C or C++ source, of the binding or of a kernel.
pub(crate) fn host_command(source: &Source<'_>, extra: impl IntoIterator<Item = String>) -> CommandLine {
    // A C++ compiler takes C for C++ otherwise.
    let is_c = source.path.extension() == Some("c");
    let language =
        if is_c { vec!["-x".to_owned(), "c".to_owned()] } else { vec![format!("-std={}", source.standard)] };
    let flags = host_flags(source).into_iter().filter(|flag| !(is_c && flag.contains("inlines")));
    CommandLine::new(&source.kit.cxx.program)
        .args(language)
        .args(["-O3"])
        .args(flags)
        .args(source.common.iter().cloned())
        .args(extra)
        .args(["-MD", "-MF", source.depfile, "-c", source.path.as_str(), "-o", source.object])
        .env(SOURCE_DATE.0, SOURCE_DATE.1)
}

/// Plans one variant: every unit and the link, in the order of build.toml. `None`: nothing here compiles it.
///
/// `python` are the files of the Python package, relative to the project. Nothing is looked up on disk; the commands
/// run in the project's folder.
pub fn plan(
    spec: &BuildSpec,
    variant: &Variant,
    kit: &Toolchain,
    naming: &Naming<'_>,
    python: Vec<RelPath>,
) -> Option<VariantPlan> {
    let extension = naming.extension;
    let compiled = variant.compiled()?;
    let (framework, toolkit) = (compiled.framework, compiled.toolkit);
    let backend = backend_of(toolkit)?;
    let id = variant.id();
    let kernels: Vec<&Kernel> =
        spec.kernels_of(backend.id()).filter(|kernel| compiled_with(kernel, toolkit)).collect();
    let standard = match framework {
        Framework::Torch(torch) if torch.version >= Version::new(2, 12) => "c++20",
        Framework::Torch(_) | Framework::TvmFfi(_) => "c++17",
    };
    let common = common_flags(framework, backend, kit);
    let mut units = Vec::new();
    let binding = spec.framework.src().iter().map(|path| (&path.value, None));
    let kernel_sources = sections::sources(&kernels);
    let sources: Vec<(&RelPath, Option<&Kernel>)> =
        binding.chain(kernel_sources.iter().map(|(path, kernel)| (path, Some(kernel)))).collect();
    let stems = sections::stems(sources.iter().map(|(path, _)| *path));
    let place = |source: &RelPath, ending: &str| {
        format!(".kernelwright/objects/{id}/{}.{ending}", stems.get(source).map_or("", String::as_str))
    };
    for (path, kernel) in sources {
        if !is_source(path) {
            continue;
        }
        // The binding's folders are its own: a section may have headers of the same names.
        let includes = kernel.map_or(spec.framework.include(), |kernel| kernel.include.as_slice());
        let mut flags = common.clone();
        let named = naming.users.contains(path);
        if named {
            flags.push(format!("-D{}={}", name_macro(framework), placeholder_name(extension)));
        }
        flags.extend(includes.iter().map(|folder| format!("-I{}", folder.as_str())));
        flags.extend(kernel.iter().flat_map(|kernel| library_flags(kernel, kit)));
        let (object, depfile) = (place(path, "o"), place(path, "d"));
        let source = Source {
            path,
            kernel,
            common: &flags,
            standard,
            object: &object,
            depfile: &depfile,
            kit,
            toolkit,
        };
        let command = match kernel {
            Some(_) => backend.compile(&source),
            None => {
                let extra = spec.framework.cxx_flags().iter().map(|flag| flag.value.clone());
                host_command(&source, extra)
            }
        };
        let named = named.then(|| place(path, "named.o"));
        units.push(Unit { name: path.as_str().to_owned(), command, object, depfile, named });
    }
    let mut capabilities: Vec<String> =
        kernels.iter().flat_map(|kernel| backend.capabilities(kernel, toolkit)).collect();
    capabilities.sort();
    capabilities.dedup();
    let cuda = kit.cuda.as_ref().filter(|_| backend.id() == BackendId::Cuda);
    let reached =
        |text: &String| cuda.is_none_or(|cuda| text.parse().is_ok_and(|capability| cuda.reaches(capability)));
    let (capabilities, left_out): (Vec<_>, Vec<_>) = capabilities.into_iter().partition(reached);
    let library = match framework {
        Framework::Torch(_) => format!("{extension}.abi3.so"),
        // Opened by tvm_ffi, and no module of Python.
        Framework::TvmFfi(_) => format!("{extension}.so"),
    };
    let objects: Vec<String> = units.iter().map(|unit| unit.linked().to_owned()).collect();
    let link = link_command(&objects, backend, kit, &format!(".kernelwright/objects/{id}/{library}"));
    Some(VariantPlan {
        variant: *variant,
        backend: backend.id(),
        id: id.to_string(),
        package: package(spec),
        extension: extension.to_owned(),
        library,
        units,
        link: Some(link),
        python,
        capabilities,
        route: cuda.map(|cuda| cuda.route(&left_out)),
    })
}

/// Plans a variant of Python only: nothing is run, and its files are the package. `None`: the variant is compiled.
///
/// The `extension` is the name under which such a variant registers operators, where it does.
pub fn plan_python(
    spec: &BuildSpec,
    variant: &Variant,
    extension: &str,
    python: Vec<RelPath>,
) -> Option<VariantPlan> {
    let Variant::Noarch(Noarch::For(backend)) = *variant else { return None };
    let mut capabilities = match (&spec.framework, backend) {
        (build::Framework::TorchNoarch(noarch), BackendId::Cuda) => texts(&noarch.cuda_capabilities),
        (build::Framework::TorchNoarch(noarch), BackendId::Rocm) => texts(&noarch.rocm_archs),
        _ => Vec::new(),
    };
    capabilities.sort();
    capabilities.dedup();
    Some(VariantPlan {
        variant: *variant,
        backend,
        id: variant.id().to_string(),
        package: package(spec),
        extension: extension.to_owned(),
        library: String::new(),
        units: Vec::new(),
        link: None,
        python,
        capabilities,
        route: None,
    })
}

fn texts<T: ToString>(values: &[Spanned<T>]) -> Vec<String> {
    values.iter().map(|value| value.value.to_string()).collect()
}

/// The folder of the project that becomes the Python package.
fn package(spec: &BuildSpec) -> String {
    format!("{}/{}", spec.framework.folder(), spec.general.name.module())
}

/// The backend of a toolkit; `None`: nothing here compiles with it.
pub(crate) fn backend_of(toolkit: Toolkit) -> Option<&'static dyn Backend> {
    BACKENDS.iter().copied().find(|backend| backend.id() == toolkit.id())
}

/// Whether a file in `src` is compiled; headers are listed there so that they travel with the project.
fn is_source(path: &RelPath) -> bool {
    matches!(path.extension(), Some("cpp" | "cc" | "cxx" | "c" | "cu"))
}

/// The macro that holds the extension's name.
const fn name_macro(framework: Framework) -> &'static str {
    match framework {
        Framework::Torch(_) => "TORCH_EXTENSION_NAME",
        Framework::TvmFfi(_) => "TVM_FFI_EXTENSION_NAME",
    }
}

/// The include folders of the header libraries that a kernel depends on.
fn library_flags(kernel: &Kernel, kit: &Toolchain) -> Vec<String> {
    let listed = |library: &&LibraryKit| {
        kernel.depends.iter().any(|dependency| dependency.value.as_str() == library.name)
    };
    let folders = kit.libraries.iter().filter(listed).flat_map(|library| &library.include);
    folders.flat_map(|folder| ["-isystem".to_owned(), folder.display().to_string()]).collect()
}

fn common_flags(framework: Framework, backend: &dyn Backend, kit: &Toolchain) -> Vec<String> {
    let mut flags = vec!["-DNDEBUG".to_owned()];
    // A library for tvm_ffi is no module of Python: neither its limits nor our registration.h are for it.
    let registration = match framework {
        Framework::Torch(_) => Some(&kit.extension_include),
        Framework::TvmFfi(_) => None,
    };
    flags.extend(registration.map(|_| "-DPy_LIMITED_API=0x03090000".to_owned()));
    flags.extend(backend.macros().iter().map(|name| format!("-D{name}")));
    if let Framework::Torch(torch) = framework
        && torch.abi == Abi::Stable
    {
        let Version { major, minor } = torch.version;
        // torch/csrc/stable/version.h: one byte each for major and minor at the top of 64 bits.
        flags.push(format!("-DTORCH_TARGET_VERSION=0x{major:02x}{minor:02x}000000000000"));
    }
    for folder in registration.into_iter().chain(kit.framework.include()) {
        flags.extend(["-isystem".to_owned(), folder.display().to_string()]);
    }
    let cuda = kit.cuda.iter().filter(|_| backend.id() == BackendId::Cuda);
    for folder in cuda.flat_map(|cuda| &cuda.include) {
        flags.extend(["-isystem".to_owned(), folder.display().to_string()]);
    }
    flags
}

/// Links the objects; the framework's libraries are named through empty stand-ins that carry nothing but their names.
///
/// With a portable kit the C and C++ libraries are named by full path as well. Their order is the recipe: what the old
/// C++ library has is found there first and stays shared, exceptions and locales included; the static one behind it
/// gives the rest, hidden.
pub fn link_command(objects: &[String], backend: &dyn Backend, kit: &Toolchain, output: &str) -> CommandLine {
    let framework = match kit.framework {
        FrameworkKit::Torch(_) => backend.torch_libraries(),
        FrameworkKit::TvmFfi(_) => &["-ltvm_ffi"],
    };
    let (before, after) = kit.portable.as_ref().map(system_libraries).unwrap_or_default();
    CommandLine::new(&kit.cxx.program)
        .args(["-shared", "-o", output])
        .args(before)
        .args(objects.iter().cloned())
        .args(["-Wl,--no-as-needed".to_owned(), format!("-L{}", kit.framework.stubs().display())])
        .args(framework.iter().copied())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_has_every_file() {
        let names: Vec<&str> = BACKENDS.iter().map(|backend| backend.id().as_str()).collect();
        assert_eq!(names, ["cpu", "cuda"]);
    }
}
