//! A backend as the planner sees it.
//!
//! Owns: what every backend answers, and what it is asked with. Never: knows a backend.

use std::path::PathBuf;

use crate::kit::{DeviceKit, Toolchain};
use crate::plan::{CommandLine, Step, Unit};
use crate::spec::build::Kernel;
use crate::units::{BackendId, RelPath};
use crate::variant::{Os, Toolkit};

use super::host_command::host_command;
use super::source::{Source, Translated};

/// One backend. Adding one is one file here and one line in [`BACKENDS`](super::BACKENDS).
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

/// What a library is linked of.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// The objects, relative to the project.
    pub objects: &'a [String],
    /// The library to be made, relative to the project.
    pub output: &'a str,
    /// The compilers and libraries.
    pub kit: &'a Toolchain,
    /// Where the library is loaded.
    pub os: Os,
}

/// Whether a source is for the backend's own compiler, wherever it is listed.
pub(super) fn is_device(backend: &dyn Backend, path: &RelPath) -> bool {
    path.extension().is_some_and(|ending| backend.endings().contains(&ending))
}
