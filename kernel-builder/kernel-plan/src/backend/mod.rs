//! What each backend means: its compiler lines, its libraries, its macros.
//!
//! Owns: the decision which command builds which source of a variant.
//! Never: runs a command, looks whether a file exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::kit::{DeviceKit, FrameworkKit, Toolchain};
use crate::plan::{CommandLine, Step, Unit, VariantPlan};
use crate::spec::Spanned;
use crate::spec::build::{self, BuildSpec, Kernel};
use crate::units::{BackendId, RelPath};
use crate::variant::{Framework, Noarch, Os, Toolkit, Variant, compiled_with};

mod cpu;
mod cuda;
mod darwin;
mod link;
mod metal;
mod rocm;
mod sections;
mod units;
mod xpu;

use units::{Units, libraries_of};

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
    /// Every section of the variant: a source of the binding has no architectures of its own, and gets theirs.
    pub sections: &'a [&'a Kernel],
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

impl<'a> Source<'a> {
    /// The architectures that its device code is compiled for, each once, where `of` has those of a section.
    fn archs<T: PartialEq>(&self, of: impl Fn(&'a Kernel) -> Vec<T>) -> Vec<T> {
        let all = if self.kernel.is_none() { self.sections } else { &[] };
        let mut archs = Vec::new();
        for arch in self.kernel.into_iter().chain(all.iter().copied()).flat_map(of) {
            if !archs.contains(&arch) {
                archs.push(arch);
            }
        }
        archs
    }
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
    let compiled = variant.compiled()?;
    let (framework, toolkit, os) = (compiled.framework, compiled.toolkit, compiled.os);
    let backend = backend_of(toolkit)?;
    let id = variant.id();
    let folder = format!(".kernelwright/objects/{id}");
    let kernels: Vec<&Kernel> =
        spec.kernels_of(backend.id()).filter(|kernel| compiled_with(kernel, toolkit)).collect();
    let joined = sections::sources(&kernels);
    let sources = sections::with_binding(spec.framework.src(), &joined, |path| compiles(backend, path));
    let paths: Vec<&RelPath> = sources.iter().map(|(path, _)| *path).collect();
    let units = Units {
        spec,
        compiled,
        kit,
        backend,
        naming,
        kernels: &kernels,
        folder: &folder,
        common: units::common_flags(framework, backend, kit, &paths),
        stems: sections::stems(paths),
    };
    let prepare = units.prepare(&sources).into_iter().collect();
    let units: Vec<Unit> = sources.iter().map(|(path, kernel)| units.unit(path, *kernel)).collect();
    let (capabilities, left_out) = reached(backend, &kernels, toolkit, kit);
    let extension = naming.extension;
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
    let cuda = kit.cuda.as_ref().filter(|_| backend.id() == BackendId::Cuda);
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

/// Capabilities of all sections: those that the toolchain generates code for, and those that it does not.
fn reached(
    backend: &dyn Backend,
    kernels: &[&Kernel],
    toolkit: Toolkit,
    kit: &Toolchain,
) -> (Vec<String>, Vec<String>) {
    let mut capabilities: Vec<String> =
        kernels.iter().flat_map(|kernel| backend.capabilities(kernel, toolkit)).collect();
    capabilities.sort();
    capabilities.dedup();
    let cuda = kit.cuda.as_ref().filter(|_| backend.id() == BackendId::Cuda);
    let reached =
        |text: &String| cuda.is_none_or(|cuda| text.parse().is_ok_and(|capability| cuda.reaches(capability)));
    capabilities.into_iter().partition(reached)
}

/// Whether a file of `src` is compiled, and does not only travel along.
fn compiles(backend: &dyn Backend, path: &RelPath) -> bool {
    path.extension().is_some_and(|ending| HOST_ENDINGS.contains(&ending)) || is_device(backend, path)
}

/// Whether a source is for the backend's own compiler, wherever it is listed.
fn is_device(backend: &dyn Backend, path: &RelPath) -> bool {
    path.extension().is_some_and(|ending| backend.endings().contains(&ending))
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

/// The backend of a toolkit; `None`: nothing here compiles with it.
pub(crate) fn backend_of(toolkit: Toolkit) -> Option<&'static dyn Backend> {
    BACKENDS.iter().copied().find(|backend| backend.id() == toolkit.id())
}

/// Endings of the sources that every backend compiles; headers are listed in `src` so that they travel with the
/// project.
const HOST_ENDINGS: &[&str] = &["cpp", "cc", "cxx", "c"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_has_every_file() {
        let names: Vec<&str> = BACKENDS.iter().map(|backend| backend.id().as_str()).collect();
        assert_eq!(names, ["cpu", "cuda", "metal", "rocm", "xpu"]);
    }
}
