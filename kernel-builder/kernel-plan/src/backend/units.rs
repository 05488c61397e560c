//! The sources of a variant as units.
//!
//! Owns: the macros, folders and language standard that each one gets, and where its object lies.
//! Never: knows a flag of a backend's own compiler.

use std::collections::{BTreeMap, BTreeSet};

use crate::kit::Toolchain;
use crate::plan::{CommandLine, Unit, placeholder_name};
use crate::spec::Spanned;
use crate::spec::build::{self, BuildSpec, Kernel};
use crate::units::{RelPath, Version};
use crate::variant::{Abi, Compiled, Framework};

use super::host_command::{libraries_of, values};
use super::interface::{Backend, is_device};
use super::sections::Listed;
use super::source::{Source, Translated};

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

/// What all units of a variant share.
pub(super) struct Units<'a> {
    /// The project.
    pub(super) spec: &'a BuildSpec,
    /// The variant.
    pub(super) compiled: &'a Compiled,
    /// Its tools.
    pub(super) kit: &'a Toolchain,
    /// Its backend.
    pub(super) backend: &'a dyn Backend,
    /// The extension's name, and who uses it.
    pub(super) naming: &'a Naming<'a>,
    /// The sections that are compiled.
    pub(super) kernels: &'a [&'a Kernel],
    /// Where objects lie, relative to the project.
    pub(super) folder: &'a str,
    /// What the object of each source is called.
    pub(super) stems: BTreeMap<&'a RelPath, String>,
    /// Flags of all sources.
    pub(super) common: Vec<String>,
}

impl Units<'_> {
    /// One source.
    pub(super) fn unit(&self, path: &RelPath, kernel: Option<&Kernel>) -> Unit {
        let Self { spec, compiled, kit, backend, .. } = *self;
        let translation = backend.translated(path, kit);
        let flags = self.flags(path, kernel, translation.as_ref());
        let (object, depfile) = (self.place(path, backend.object(path)), self.place(path, "d"));
        let source = Source {
            path,
            file: translation.as_ref().map_or(path.as_str(), |copy| copy.file.as_str()),
            kernel,
            sections: self.kernels,
            common: &flags,
            standard: self.standard(kernel),
            object: &object,
            depfile: &depfile,
            kit,
            toolkit: compiled.toolkit,
            os: compiled.os,
        };
        let command = if kernel.is_some() || is_device(backend, path) {
            backend.compile(&source)
        } else {
            backend.bind(&source, values(spec.framework.cxx_flags()).collect())
        };
        let named = self.naming.users.contains(path).then(|| self.place(path, "named.o"));
        Unit { name: path.as_str().to_owned(), command, object, depfile, named }
    }

    /// What writes the sources that are compiled in the place of others.
    pub(super) fn prepare(&self, sources: &[Listed<'_>]) -> Option<CommandLine> {
        let translated = |(path, _): &&Listed<'_>| self.backend.translated(path, self.kit).is_some();
        let (mut paths, mut include) = (Vec::new(), Vec::new());
        for (path, kernel) in sources.iter().filter(translated) {
            paths.push(*path);
            include.extend(self.include(*kernel).iter().map(|folder| folder.value.clone()));
        }
        include.sort();
        include.dedup();
        self.backend.prepare(&paths, &include, self.kit)
    }

    /// The project's folders that a source includes from. The binding's are its own: a section may have headers of the
    /// same names.
    fn include<'k>(&'k self, kernel: Option<&'k Kernel>) -> &'k [Spanned<RelPath>] {
        kernel.map_or(self.spec.framework.include(), |kernel| kernel.include.as_slice())
    }

    /// Macros and include folders.
    fn flags(
        &self,
        path: &RelPath,
        kernel: Option<&Kernel>,
        translation: Option<&Translated>,
    ) -> Vec<String> {
        let mut flags = self.common.clone();
        if self.naming.users.contains(path) {
            let name = placeholder_name(self.naming.extension);
            flags.push(format!("-D{}={name}", name_macro(self.compiled.framework)));
        }
        let root = translation.map(|copy| format!("{}/", copy.root)).unwrap_or_default();
        flags.extend(self.include(kernel).iter().map(|folder| format!("-I{root}{}", folder.as_str())));
        flags.extend(kernel.iter().flat_map(|kernel| library_flags(kernel, self.kit)));
        flags
    }

    fn standard(&self, kernel: Option<&Kernel>) -> &'static str {
        match self.compiled.framework {
            Framework::Torch(torch) if torch.version >= CXX20_SINCE => "c++20",
            // What sees nothing of torch is the same for all its releases, and compiled once.
            Framework::Torch(_) if kernel.is_some_and(|kernel| is_for_cxx20(self.spec, kernel)) => "c++20",
            Framework::Torch(_) | Framework::TvmFfi(_) => "c++17",
        }
    }

    fn place(&self, source: &RelPath, ending: &str) -> String {
        format!("{}/{}.{ending}", self.folder, self.stems.get(source).map_or("", String::as_str))
    }
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

/// The macro that holds the extension's name.
const fn name_macro(framework: Framework) -> &'static str {
    match framework {
        Framework::Torch(_) => "TORCH_EXTENSION_NAME",
        Framework::TvmFfi(_) => "TVM_FFI_EXTENSION_NAME",
    }
}

/// Their include folders.
fn library_flags(kernel: &Kernel, kit: &Toolchain) -> Vec<String> {
    let folders = libraries_of(kernel, kit).flat_map(|library| &library.include);
    folders.flat_map(|folder| ["-isystem".to_owned(), folder.display().to_string()]).collect()
}

/// Flags that all of `sources` are compiled with.
pub(super) fn common_flags(
    framework: Framework,
    backend: &dyn Backend,
    kit: &Toolchain,
    sources: &[&RelPath],
) -> Vec<String> {
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
    flags.extend(backend.embedding(sources));
    flags
}
