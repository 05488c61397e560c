//! What each backend means: its compiler lines, its libraries, its macros.
//!
//! Owns: the decision which command builds which source of a variant.
//! Never: runs a command, looks whether a file exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::kit::{DeviceKit, FrameworkKit, LibraryKit, Toolchain};
use crate::plan::{CommandLine, Step, Unit, VariantPlan, placeholder_name};
use crate::spec::Spanned;
use crate::spec::build::{self, BuildSpec, Kernel};
use crate::units::{BackendId, RelPath, Version};
use crate::variant::{Abi, Framework, Noarch, Os, Toolkit, Variant, compiled_with};

mod cpu;
mod cuda;
mod darwin;
mod link;
mod metal;
mod rocm;
mod sections;
mod xpu;

pub use cpu::Cpu;
pub use cuda::Cuda;
pub use link::Link;
pub use metal::Metal;
pub use rocm::Rocm;
pub use xpu::Xpu;

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

    /// Endings of the sources that it compiles beside C and C++, e.g. `cu`.
    fn endings(&self) -> &'static [&'static str] {
        &[]
    }

    /// What the object of a source ends in, which is `o` for what is linked.
    fn object(&self, _path: &RelPath) -> &'static str {
        "o"
    }

    /// The command that compiles one source of the binding.
    fn bind(&self, source: &Source<'_>, flags: Vec<String>) -> CommandLine {
        host_command(source, flags)
    }

    /// Folders of the toolkit that every source may include from.
    fn include<'k>(&self, kit: &'k Toolchain) -> &'k [PathBuf] {
        kit.device.as_ref().map(DeviceKit::include).unwrap_or_default()
    }

    /// What is compiled in the place of a source: a file that [`Backend::prepare`] writes. `None`: the source itself.
    fn translated(&self, _path: &RelPath, _kit: &Toolchain) -> Option<Translated> {
        None
    }

    /// The command that writes what [`Backend::translated`] names. `sources` are those that have to be translated, at
    /// least one; `include` the project's folders that they include from.
    fn prepare(&self, _sources: &[&RelPath], _include: &[RelPath], _kit: &Toolchain) -> Option<CommandLine> {
        None
    }

    /// Flags that the binding and every kernel see where one of `sources` is device code that is embedded.
    fn embedding(&self, _sources: &[&RelPath]) -> Vec<String> {
        Vec::new()
    }

    /// What is made of those units that are not linked themselves; the last step makes an object that is. `stem` is the
    /// beginning of the paths.
    fn before_link(&self, _units: &[Unit], _stem: &str, _kit: &Toolchain) -> Vec<Step> {
        Vec::new()
    }

    /// The link.
    fn link(&self, link: &Link<'_>) -> CommandLine;
}

/// Every backend that can be built, in the order in which build.toml's documentation lists them.
pub const BACKENDS: &[&dyn Backend] = &[&Cpu, &Cuda, &Metal, &Rocm, &Xpu];

/// A source that another one is translated to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translated {
    /// The folder that holds a copy of the project, relative to the project.
    pub root: String,
    /// The file that is compiled, relative to the project.
    pub file: String,
}

/// One source with all that decides its command.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file of build.toml, below the project's folder.
    pub path: &'a RelPath,
    /// The file that is compiled, relative to the project: the same one, or what it was translated to.
    pub file: &'a str,
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
    /// Where the object runs.
    pub os: Os,
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

/// The same without what Clang does not know; its symbols are never unique.
pub(crate) const CLANG_FLAGS: &[&str] = &["-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"];

/// What `__DATE__` and `__TIME__` are made from, by every compiler that a build can be repeated with (the specification
/// of SOURCE_DATE_EPOCH, reproducible-builds.org): a build says nothing about when it was made.
pub(crate) const SOURCE_DATE: (&str, &str) = ("SOURCE_DATE_EPOCH", "0");

/// [`HOST_FLAGS`] and what keeps the place of tools out of the object: folders of headers have names of their own in it
/// (`__FILE__`, debugging information), and names that the compiler draws follow from the source's.
pub(crate) fn host_flags(source: &Source<'_>) -> Vec<String> {
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
    flags.extend((source.os == Os::Darwin).then(|| darwin::oldest_flag(source.toolkit)));
    flags
}

/// The host compiler's command for a C or C++ source, of the binding or of a kernel.
pub(crate) fn host_command(source: &Source<'_>, extra: impl IntoIterator<Item = String>) -> CommandLine {
    command(&source.kit.cxx.program, source, host_flags(source), extra)
}

/// The same of another compiler, which is a Clang.
fn clang_command(
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
fn values(flags: &[Spanned<String>]) -> impl Iterator<Item = String> {
    flags.iter().map(|flag| flag.value.clone())
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
    let (framework, toolkit, os) = (compiled.framework, compiled.toolkit, compiled.os);
    let backend = backend_of(toolkit)?;
    let id = variant.id();
    let folder = format!(".kernelwright/objects/{id}");
    let kernels: Vec<&Kernel> =
        spec.kernels_of(backend.id()).filter(|kernel| compiled_with(kernel, toolkit)).collect();
    let standard = |kernel: Option<&Kernel>| match framework {
        Framework::Torch(torch) if torch.version >= CXX20_SINCE => "c++20",
        // What sees nothing of torch is the same for all its releases, and compiled once.
        Framework::Torch(_) if kernel.is_some_and(|kernel| is_for_cxx20(spec, kernel)) => "c++20",
        Framework::Torch(_) | Framework::TvmFfi(_) => "c++17",
    };
    let binding = spec.framework.src().iter().map(|path| (&path.value, None));
    let kernel_sources = sections::sources(&kernels);
    let mut sources: Vec<(&RelPath, Option<&Kernel>)> =
        binding.chain(kernel_sources.iter().map(|(path, kernel)| (path, Some(kernel)))).collect();
    let stems = sections::stems(sources.iter().map(|(path, _)| *path));
    let place = |source: &RelPath, ending: &str| {
        format!("{folder}/{}.{ending}", stems.get(source).map_or("", String::as_str))
    };
    let own = |path: &RelPath| path.extension().is_some_and(|ending| backend.endings().contains(&ending));
    let host = |path: &RelPath| path.extension().is_some_and(|ending| HOST_ENDINGS.contains(&ending));
    sources.retain(|(path, _)| host(path) || own(path));
    let paths: Vec<&RelPath> = sources.iter().map(|(path, _)| *path).collect();
    let mut common = common_flags(framework, backend, kit);
    common.extend(backend.embedding(&paths));
    let mut units = Vec::new();
    let (mut translated, mut translated_include) = (Vec::new(), Vec::new());
    for (path, kernel) in sources {
        let translation = backend.translated(path, kit);
        // The binding's folders are its own: a section may have headers of the same names.
        let include = kernel.map_or(spec.framework.include(), |kernel| kernel.include.as_slice());
        let mut flags = common.clone();
        let named = naming.users.contains(path);
        if named {
            flags.push(format!("-D{}={}", name_macro(framework), placeholder_name(extension)));
        }
        match &translation {
            Some(copy) => {
                flags.extend(include.iter().map(|folder| format!("-I{}/{}", copy.root, folder.as_str())))
            }
            None => flags.extend(include.iter().map(|folder| format!("-I{}", folder.as_str()))),
        }
        if translation.is_some() {
            translated.push(path);
            translated_include.extend(include.iter().map(|folder| folder.value.clone()));
        }
        flags.extend(kernel.iter().flat_map(|kernel| library_flags(kernel, kit)));
        let (object, depfile) = (place(path, backend.object(path)), place(path, "d"));
        let source = Source {
            path,
            file: translation.as_ref().map_or(path.as_str(), |copy| copy.file.as_str()),
            kernel,
            common: &flags,
            standard: standard(kernel),
            object: &object,
            depfile: &depfile,
            kit,
            toolkit,
            os,
        };
        let command = if kernel.is_some() || own(path) {
            backend.compile(&source)
        } else {
            backend.bind(&source, values(spec.framework.cxx_flags()).collect())
        };
        let named = named.then(|| place(path, "named.o"));
        units.push(Unit { name: path.as_str().to_owned(), command, object, depfile, named });
    }
    translated_include.sort();
    translated_include.dedup();
    let prepare = backend.prepare(&translated, &translated_include, kit).into_iter().collect();
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
    let before_link = backend.before_link(&units, &format!("{folder}/device"), kit);
    let made = before_link.last().map(|step| step.output.clone());
    let objects: Vec<String> = units
        .iter()
        .map(|unit| unit.linked().to_owned())
        .filter(|object| object.ends_with(".o"))
        .chain(made)
        .collect();
    let link = backend.link(&Link { objects: &objects, output: &format!("{folder}/{library}"), kit, os });
    Some(VariantPlan {
        variant: *variant,
        backend: backend.id(),
        id: id.to_string(),
        package: package(spec),
        extension: extension.to_owned(),
        library,
        prepare,
        units,
        before_link,
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
        prepare: Vec::new(),
        units: Vec::new(),
        before_link: Vec::new(),
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

/// torch's headers are in C++20 from this release on, and so are the sources that are built with it.
const CXX20_SINCE: Version = Version::new(2, 12);

/// Whether a section is built for a release with [`CXX20_SINCE`] and does not depend on torch itself.
fn is_for_cxx20(spec: &BuildSpec, kernel: &Kernel) -> bool {
    let reaches =
        |torch: &build::Torch| torch.versions.max.as_ref().is_none_or(|newest| newest.value >= CXX20_SINCE);
    let depends = kernel.depends.iter().any(|depend| depend.value.as_str() == "torch");
    !depends && spec.torch().is_some_and(reaches)
}

/// The backend of a toolkit; `None`: nothing here compiles with it.
pub(crate) fn backend_of(toolkit: Toolkit) -> Option<&'static dyn Backend> {
    BACKENDS.iter().copied().find(|backend| backend.id() == toolkit.id())
}

/// Endings of the sources that every backend compiles; headers are listed in `src` so that they travel with the
/// project.
const HOST_ENDINGS: &[&str] = &["cpp", "cc", "cxx", "c"];

/// The macro that holds the extension's name.
const fn name_macro(framework: Framework) -> &'static str {
    match framework {
        Framework::Torch(_) => "TORCH_EXTENSION_NAME",
        Framework::TvmFfi(_) => "TVM_FFI_EXTENSION_NAME",
    }
}

/// The header libraries that a kernel depends on.
fn libraries_of<'a>(kernel: &'a Kernel, kit: &'a Toolchain) -> impl Iterator<Item = &'a LibraryKit> {
    let listed = |library: &&LibraryKit| {
        kernel.depends.iter().any(|dependency| dependency.value.as_str() == library.name)
    };
    kit.libraries.iter().filter(listed)
}

/// Their include folders.
fn library_flags(kernel: &Kernel, kit: &Toolchain) -> Vec<String> {
    let folders = libraries_of(kernel, kit).flat_map(|library| &library.include);
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
    let framework = registration.into_iter().chain(kit.framework.include());
    for folder in framework.chain(backend.include(kit)) {
        flags.extend(["-isystem".to_owned(), folder.display().to_string()]);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_has_every_file() {
        let names: Vec<&str> = BACKENDS.iter().map(|backend| backend.id().as_str()).collect();
        assert_eq!(names, ["cpu", "cuda", "metal", "rocm", "xpu"]);
    }
}
